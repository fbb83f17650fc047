package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

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

// The widest sums: 15·127·2·8, 31·127·2·4, 63·127·2·2, 7·127·2·4 and 3·127·2·4, all below 2¹⁵.
var lowLayouts = []lowLayout{
	{"L4", "U4", 16, 8, true, true}, {"L5", "U5", 8, 4, true, true}, {"L6", "U6", 4, 2, true, false},
	{"L3", "U3", 32, 4, true, false}, {"L2", "U2", 64, 4, false, true},
}

// tile256 is tile with 16 registers of 256 bits: 12 integer sums of 6 rows of activations × 16 of weights, as many as hide their
// latency, and the float sums in memory on the stack. It is called for either half of 32 rows of weights.
type tile256 struct {
	*codes
	mins  bool
	low   *lowLayout // nil for bytes
	words Mem        // the factor of low layouts, in 16-bit words
	act   [6]Mem
}

// tiles256 writes the kernels that the formats need: bytes with VNNI, or low layouts and bytes without.
func tiles256(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		consts := writeConstants(w)
		kernel := func(f layout, low *lowLayout, mins bool) {
			t := tile256{codes: &codes{Width: w, layout: f, magic: consts.magic, flip: consts.mask[0x80], ones: consts.ones}, mins: mins, low: low}
			if low != nil {
				t.words = w.RepeatBits("factor"+low.name, low.factor<<16|low.factor)
			}
			t.kernel()
		}
		for _, f := range layouts {
			switch {
			case f.planes == 8 && w.VNNI:
				kernel(f, nil, false)
				kernel(f, nil, true)
			case f.name == "U8", f.name == "S8":
				kernel(f, nil, false)
			}
			for i := range lowLayouts {
				low := &lowLayouts[i]
				if low.of != f.name || w.VNNI {
					continue
				}
				if low.plain {
					kernel(f, low, false)
				}
				if low.mins {
					kernel(f, low, true)
				}
				lowUnpack(w, f, low, consts)
			}
		}
	}
}

// Registers: as those of tile, and R14 for the float sums and, behind them, integer sums that are being widened.
const floatBytes = 4 * tileRows * 16

func (t tile256) kernel() {
	name := "tiles" + t.name
	if t.low != nil {
		name = "tiles" + t.low.name
	}
	if t.mins {
		name += "Min"
	}
	name += t.Suffix()
	t.Func(name, "func(out *float32, ld int, fresh bool, w *byte, scale, mins *float32, act *byte, stride, step, next, blocks, tiles int, codes, codesEnd, scales, scalesEnd uintptr)",
		fmt.Sprintf("%s adds the products of tiles of %d rows of activations with 16 rows of weights to out, or sets out to them.", name, tileRows))
	t.Attributes(0) // its frame is too large for NOSPLIT
	frame := t.AllocLocal(2*floatBytes + 64)
	out, ld := t.Arg("out", RDI), t.Arg("ld", RSI)
	act, stride, step := t.Arg("act", RDX), t.Arg("stride", RCX), t.Arg("step", R15)
	ahead := [2]GPPhysical{t.Arg("codes", R11), t.Arg("scales", R12)}
	t.Label("tile")
	weights, scale, blocks := t.Arg("w", RAX), t.Arg("scale", RBX), t.Arg("blocks", R8)
	for i, end := range []string{"codesEnd", "scalesEnd"} {
		t.CMPQ(ahead[i], t.Slot(end))
		t.CMOVQCC(weights, ahead[i]) // the panel: there is nothing left to prefetch
	}
	t.start(frame, out, ld)
	t.act = rowAddresses(t.Width, tileRows, act, stride)
	if t.mins {
		t.Arg("mins", R13)
	}
	t.Label("loop")
	for i, lines := range aheadLines {
		for l := range lines {
			t.PREFETCHT1(emit.At(ahead[i], 64*l))
		}
		t.Advance(ahead[i], 64*lines)
	}
	for sub := range t.subs() {
		t.products(weights, sub)
		t.scaled(scale, sub)
	}
	t.Advance(weights, 128*8)
	t.Advance(scale, 128*t.subs())
	if t.mins {
		t.Advance(R13, 128*t.subs())
	}
	t.ADDQ(step, act)
	t.ADDQ(step, sixthRow)
	t.SUBQ(Imm(1), blocks)
	t.JNZ(LabelRef("loop"))
	for r := range tileRows {
		for v := range 2 {
			t.VMOVUPS(t.held(r, v), t.Reg(v))
			t.VMOVUPS(t.Reg(v), emit.At(out, v*t.Bytes))
		}
		t.ADDQ(ld, out)
	}
	t.ADDQ(t.Slot("next"), act)
	t.SUBQ(Imm(1), t.Slot("tiles"))
	t.JNZ(LabelRef("tile"))
	t.VZEROUPPER()
	t.RET()
}

func (t tile256) subs() int {
	if t.sub16 {
		return 2
	}
	return 1
}

func (t tile256) int(r, v int) VecPhysical { return t.Reg(2*r + v) }

// held is the float sum of a row, partial its integer sum before the last widening.
func (t tile256) held(r, v int) Mem    { return emit.At(R14, 32*(2*r+v)) }
func (t tile256) partial(r, v int) Mem { return emit.At(R14, floatBytes+32*(2*r+v)) }

// start sets the float sums to zero or to what out holds, and prefetches the next tile's part of out; it uses R13 and R14.
func (t tile256) start(frame Mem, out, ld GPPhysical) {
	t.LEAQ(Mem{Base: ld, Index: ld, Scale: 2}, R14)
	t.LEAQ(Mem{Base: out, Index: R14, Scale: 2}, R13)
	for range tileRows {
		t.PREFETCHW(R13, 0)
		t.ADDQ(ld, R13)
	}
	t.LEAQ(frame, R14)
	t.ADDQ(Imm(31), R14)
	t.ANDQ(I8(-32), R14)
	t.Zero(t.Reg(0))
	t.Zero(t.Reg(1))
	t.MOVQ(out, R13)
	for r := range tileRows {
		t.CMPB(t.Slot("fresh"), Imm(0))
		t.JNE(LabelRef(fmt.Sprint("fresh", r)))
		for v := range 2 {
			t.VMOVUPS(emit.At(R13, v*t.Bytes), t.Reg(v))
		}
		t.ADDQ(ld, R13)
		t.Label(fmt.Sprint("fresh", r))
		for v := range 2 {
			t.VMOVUPS(t.Reg(v), t.held(r, v))
		}
	}
}

// q8 is byte disp of row r's Q8 block.
func (t tile256) q8(r, disp int) Mem { return t.act[r].Offset(disp) }

// bias is the offset of the integer sums' start in a Q8 block.
func (t tile256) bias(sub int) int {
	if t.sub16 {
		return q8Bias16 + 4*sub
	}
	return q8Bias
}

// products leaves the integer sums of a block or a half of it, as floats plus 1.5·2²³.
func (t tile256) products(weights GPPhysical, sub int) {
	groups := 8 / t.subs()
	for r := range tileRows {
		for v := range 2 {
			switch {
			case t.VNNI:
				t.VPBROADCASTD(t.q8(r, t.bias(sub)), t.int(r, v))
			case t.low == nil:
				t.Move(t.magic, t.int(r, v))
			}
		}
	}
	for g := range groups {
		j := sub*groups + g
		switch {
		case t.VNNI:
			t.dots(weights, j)
		case t.low == nil:
			t.signed(weights, j)
		default:
			t.pairs(weights, j, g%t.low.widen == 0)
			if g%t.low.widen == t.low.widen-1 {
				t.widened(sub, g+1 == t.low.widen, g+1 == groups)
			}
		}
	}
}

// dots multiplies a group by VPDPBUSD.
func (t tile256) dots(weights GPPhysical, j int) {
	for v := range 2 {
		t.Move(emit.At(weights, 128*j+32*v), t.Reg(12+v))
	}
	for r := range tileRows {
		t.VPBROADCASTD(t.q8(r, 4*j), Y14)
		for v := range 2 {
			t.Dot(Y14, t.Reg(12+v), t.int(r, v))
		}
	}
}

// signed multiplies a group of bytes with the weights' signs moved to the activations, see dot.products.
func (t tile256) signed(weights GPPhysical, j int) {
	for v := range 2 {
		t.Move(t.flip, Y12)
		t.Xor(emit.At(weights, 128*j+32*v), Y12, Y12)
		t.VPABSB(Y12, Y13)
		for r := range tileRows {
			t.VPBROADCASTD(t.q8(r, 4*j), Y14)
			t.VPSIGNB(Y12, Y14, Y14)
			t.VPMADDUBSW(Y14, Y13, Y14)
			t.VPMADDWD(t.ones, Y14, Y14)
			t.VPADDD(Y14, t.int(r, v), t.int(r, v))
		}
	}
}

// pairs multiplies a group of a low layout, and adds in 16 bits.
func (t tile256) pairs(weights GPPhysical, j int, first bool) {
	for v := range 2 {
		t.Move(emit.At(weights, 128*j+32*v), t.Reg(12+v))
	}
	for r := range tileRows {
		t.VPBROADCASTD(t.q8(r, 4*j), Y14)
		for v := range 2 {
			if first {
				t.VPMADDUBSW(Y14, t.Reg(12+v), t.int(r, v))
				continue
			}
			t.VPMADDUBSW(Y14, t.Reg(12+v), Y15)
			t.VPADDW(Y15, t.int(r, v), t.int(r, v))
		}
	}
}

// widened widens the sums to 32 bits, and adds them to those before.
func (t tile256) widened(sub int, first, last bool) {
	for r := range tileRows {
		if last {
			t.VPBROADCASTD(t.q8(r, t.bias(sub)), Y14)
		}
		for v := range 2 {
			t.VPMADDWD(t.words, t.int(r, v), t.int(r, v))
			if !first {
				t.VPADDD(t.partial(r, v), t.int(r, v), t.int(r, v))
			}
			if last {
				t.VPADDD(Y14, t.int(r, v), t.int(r, v))
			} else {
				t.Move(t.int(r, v), t.partial(r, v))
			}
		}
	}
}

// scaled adds the scaled integer sums to the float sums, see dot.scaled; after the last, minima × scale × sum of the
// activations.
func (t tile256) scaled(scale GPPhysical, sub int) {
	for v := range 2 {
		t.VMOVUPS(emit.At(scale, sub*128+v*t.Bytes), Y12)
		t.VMULPS(t.magic, Y12, Y13)
		for r := range tileRows {
			t.VFMSUB132PS(Y12, Y13, t.int(r, v))
		}
		mins := 0
		if t.mins && sub == t.subs()-1 {
			mins = t.subs()
		}
		for i := range mins {
			t.VMOVUPS(emit.At(R13, 128*i+v*t.Bytes), t.Reg(12+i))
		}
		for r := range tileRows {
			t.VBROADCASTSS(t.q8(r, q8Scale), Y14)
			t.VFMADD213PS(t.held(r, v), Y14, t.int(r, v))
			for i := range mins {
				at := q8Sum
				if t.sub16 {
					at += 4 + 4*i
				}
				t.VBROADCASTSS(t.q8(r, at), Y14)
				t.VFMADD231PS(Y14, t.Reg(12+i), t.int(r, v))
			}
			t.VMOVUPS(t.int(r, v), t.held(r, v))
		}
	}
}

// lowUnpack writes the kernel that unpacks a layout to its low layout: that of bytes, shifted right.
func lowUnpack(w emit.Width, f layout, low *lowLayout, consts constants) {
	name := "unpack" + low.name + w.Suffix()
	w.Func(name, "func(panel *byte, w *byte, blocks int)", fmt.Sprintf("%s turns blocks of %s codes of 32 rows into %s.", name, f.name, low.name))
	panel, weights, blocks := w.Arg("panel", RDI), w.Arg("w", RAX), w.Arg("blocks", RCX)
	c := consts.codes(w, f, 6)
	down := map[uint32]int{64: 6, 32: 5, 16: 4, 8: 3, 4: 2}[low.factor]
	w.Move(w.FixedBytes("low"+low.name, byte(0xff>>down)), w.Reg(6))
	w.Label("loop")
	for v := 0; v < 128; v += w.Bytes {
		for j := range 8 {
			dst := w.Reg(j % 3)
			f.group(c, j, emit.At(weights, v), dst, w.Reg(3+j%3))
			w.Shift(-down, dst)
			w.And(dst, w.Reg(6), dst)
			w.Move(dst, emit.At(panel, 128*j+v))
		}
	}
	w.Advance(weights, 128*f.planes)
	w.Advance(panel, 1024)
	w.SUBQ(Imm(1), blocks)
	w.JNZ(LabelRef("loop"))
	w.VZEROUPPER()
	w.RET()
}
