package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// A layout is one way in which weight codes are stored in packed memory; package tools/asm/gemm describes them. Here every layout is
// unpacked to signed bytes, which takes one exclusive or more than unsigned ones, since SDOT multiplies operands of equal
// signedness only. Group j is k = 4j … 4j+3 of a block of 32: a word for each row.
type layout struct {
	name   string
	planes int  // of 128 bytes
	sub16  bool // scales stand for 16 weights, not 32
	masks  []byte
	table  *[16]byte // the values of 4-bit codes
	// plane is where group j lies; groups that share one are both made of a single load where that helps.
	plane func(j int) int
	// ready is applied to a plane once for all its groups; nil: nothing.
	ready func(c *codes, x arm.V)
	// group makes codes of group j of a ready plane's vector v in x; dst may be x, tmp is free.
	group func(c *codes, j, v int, x, dst, tmp arm.V)
}

// nibbles reports that groups j and j+4 share a plane and a scale.
func (f layout) nibbles() bool { return f.planes < 8 && !f.sub16 }

// codes is a layout's constants within one kernel.
type codes struct {
	*arm.Asm
	layout
	weights arm.R
	mask    map[byte]arm.V
	lookup  arm.V
}

// codes loads the constants of a layout into registers from last downwards.
func (f layout) codes(a *arm.Asm, weights arm.R, last arm.V) *codes {
	c := &codes{Asm: a, layout: f, weights: weights, mask: map[byte]arm.V{}}
	for _, b := range f.masks {
		a.Load(a.Bytes(b), last)
		c.mask[b] = last
		last--
	}
	if f.table != nil {
		a.Load(a.Vector(*f.table), last)
		c.lookup = last
	}
	return c
}

// loadPlane loads vector v (rows 4v to 4v+3) of a plane.
func (c *codes) loadPlane(plane, v int, x arm.V) { c.LoadQ(c.weights, 128*plane+16*v, x) }

// load makes the plane of group j ready in x.
func (c *codes) load(j, v int, x arm.V) {
	c.loadPlane(c.plane(j), v, x)
	if c.ready != nil {
		c.ready(c, x)
	}
}

// code makes group j of vector v in dst.
func (c *codes) code(j, v int, dst, tmp arm.V) {
	c.load(j, v, dst)
	if c.group != nil {
		c.group(c, j, v, dst, dst, tmp)
	}
}

// flip exchanges bits of x.
func flip(mask byte) func(c *codes, x arm.V) {
	return func(c *codes, x arm.V) { c.Xor(x, x, c.mask[mask]) }
}

// field is dst = x moved left by n bits, masked.
func (c *codes) field(x, dst arm.V, n int, mask byte) {
	c.Shift(dst, x, n)
	c.And(dst, dst, c.mask[mask])
}

// highBits puts bits of another plane, flipped and shifted left by n, at the top of dst.
func (c *codes) highBits(plane, v, n int, flipped, mask byte, dst, tmp arm.V) {
	c.loadPlane(plane, v, tmp)
	c.Xor(tmp, tmp, c.mask[flipped])
	c.Shift(tmp, tmp, n)
	c.Insert(dst, tmp, c.mask[mask])
}

// nibble puts the low (groups 0 to 3) or high four bits at bit `to`; the bits above or below are masked, or are garbage above
// that highBits overwrites.
func (c *codes) nibble(j, to int, mask byte, x, dst arm.V) {
	if j < 4 {
		c.Shift(dst, x, to)
	} else {
		c.field(x, dst, to-4, mask)
	}
}

func modulo4(j int) int { return j % 4 }
func by4(j int) int     { return j / 4 }
func each(j int) int    { return j }

var layouts = []layout{
	{name: "U8", planes: 8, masks: []byte{0x80}, plane: each, ready: flip(0x80)},
	{name: "S8", planes: 8, sub16: true, masks: []byte{0x80}, plane: each, ready: flip(0x80)},
	{name: "U4", planes: 4, masks: []byte{0x88, 0xf0}, plane: modulo4, ready: flip(0x88),
		group: func(c *codes, j, v int, x, dst, tmp arm.V) {
			if j < 4 {
				c.Shift(dst, x, 4)
			} else {
				c.And(dst, x, c.mask[0xf0])
			}
		}},
	{name: "U5", planes: 5, masks: []byte{0x78, 0x80, 0xff}, plane: modulo4,
		group: func(c *codes, j, v int, x, dst, tmp arm.V) {
			c.nibble(j, 3, 0x78, x, dst)
			c.highBits(4, v, 7-j, 0xff, 0x80, dst, tmp)
		}},
	{name: "U6", planes: 6, sub16: true, masks: []byte{0x3c, 0xc0, 0xaa}, plane: modulo4,
		group: func(c *codes, j, v int, x, dst, tmp arm.V) {
			c.nibble(j, 2, 0x3c, x, dst)
			c.highBits(4+j/4, v, 6-2*(j%4), 0xaa, 0xc0, dst, tmp)
		}},
	{name: "U3", planes: 3, sub16: true, masks: []byte{0x60, 0x80, 0xff}, plane: by4,
		group: func(c *codes, j, v int, x, dst, tmp arm.V) {
			c.field(x, dst, 5-2*(j%4), 0x60)
			c.highBits(2, v, 7-j, 0xff, 0x80, dst, tmp)
		}},
	{name: "U2", planes: 2, sub16: true, masks: []byte{0xaa, 0xc0}, plane: by4, ready: flip(0xaa),
		group: func(c *codes, j, v int, x, dst, tmp arm.V) { c.field(x, dst, 6-2*(j%4), 0xc0) }},
	{name: "N4", planes: 4, masks: []byte{0x0f}, table: &iq4nl, plane: modulo4, group: tabled},
	{name: "M4", planes: 4, masks: []byte{0x0f}, table: &mxfp4, plane: modulo4, group: tabled},
}

// Unpacked codes are signed bytes already.
var (
	panel32 = layout{name: "I8", planes: 8, plane: each}
	panel16 = layout{name: "H8", planes: 8, sub16: true, plane: each}
)

// tabled looks a 4-bit code up.
func tabled(c *codes, j, v int, x, dst, tmp arm.V) {
	if j < 4 {
		c.And(dst, x, c.mask[0x0f])
	} else {
		c.Shift(dst, x, -4)
	}
	c.Lookup(dst, c.lookup, dst)
}

// iq4nl and mxfp4 are the values of the two formats with a lookup table: the IQ4_NL table of ggml-common.h, and twice the E2M1 values
// of the OCP Microscaling specification 1.0, table 5.
var (
	iq4nl = signed(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
	mxfp4 = signed(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
)

func signed(values ...int8) (b [16]byte) {
	for i, v := range values {
		b[i] = byte(v)
	}
	return b
}
