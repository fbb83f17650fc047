package main

import "math/bits"

// lowLayout is a layout of unpacked codes for AVX2 without VNNI: unsigned numbers of few bits, right-aligned in their
// byte, so that several products of pairs fit in 16 bits and VPMADDWD, which widens them, is seldom needed. VPMADDWD
// then multiplies by the factor that makes them the bytes, with an offset of 128, that all kernels compute with.
type lowLayout struct {
	name   string
	of     string // the packed layout
	factor uint32
	widen  int  // groups that are added in 16 bits
	plain  bool // some formats have no minima
	mins   bool // and some have
}

// The widest sums: 15·127·2·8, 31·127·2·4, 63·127·2·2, 7·127·2·4 and 3·127·2·4, all below 2¹⁵; and
// those of bytes in two halves (see block256.halves) as of L4.
var lowLayouts = []lowLayout{
	{"L4", "U4", 16, 8, true, true}, {"L5", "U5", 8, 4, true, true}, {"L6", "U6", 4, 2, true, false},
	{"L3", "U3", 32, 4, true, false}, {"L2", "U2", 64, 4, false, true},
}

// lowOf is the low layout of a packed one; nil if it has none.
func lowOf(f layout) *lowLayout {
	for i := range lowLayouts {
		if lowLayouts[i].of == f.name {
			return &lowLayouts[i]
		}
	}
	return nil
}

// shifted is the packed layout f with its codes unpacked to low ones.
func (low *lowLayout) shifted(f layout) layout {
	f.down = bits.TrailingZeros32(low.factor)
	masks := make([]byte, len(f.masks))
	for i, b := range f.masks {
		masks[i] = b >> f.down
	}
	f.masks = masks
	return f
}
