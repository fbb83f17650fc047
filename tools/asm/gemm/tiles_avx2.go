package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// tile256 is tile with 16 registers of 256 bits: 12 integer sums of 6 rows of activations × 16 of weights, as many as hide their
// latency, and the float sums in memory on the stack. It is called for either half of 32 rows of weights.
type tile256 struct{ block256 }

// tileRows256 is how many rows of weights a tile has here. Low layouts are unpacked for one call at a time: the panel then takes half of a small L1 cache, and two stores in
// a row go to one line of it.
const (
	tileRows256 = 16
	halfGroup   = 4 * tileRows256 // bytes of a group of such rows
)

// tiles256 writes the kernels that the formats need: bytes with VNNI, or low layouts without; see words for bytes.
func tiles256(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		consts := writeConstants(w)
		kernel := func(f layout, low *lowLayout, mins bool) {
			t := tile256{newBlock256(w, f, low, consts, tileRows)}
			t.mins = mins
			t.kernel()
		}
		for _, f := range layouts {
			switch {
			case f.planes == 8 && w.VNNI:
				kernel(f, nil, false)
				kernel(f, nil, true)
			}
			low := lowOf(f)
			switch {
			case w.VNNI:
			case low != nil:
				if low.plain {
					kernel(f, low, false)
				}
				if low.mins {
					kernel(f, low, true)
				}
				unpackTo("unpack"+low.name, low.name, w, low.shifted(f), consts, tileRows256)
			case f.planes < 8:
				unpack(w, f, consts)
			}
		}
	}
}

// Registers: as those of tile, and R14 for the float sums and, behind them, integer sums that are being widened.
func (t *tile256) kernel() {
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
	t.products(weights, scale, func(int) {})
	t.Advance(weights, 8*t.groupBytes())
	t.Advance(scale, 128*t.subs())
	if t.mins {
		t.Advance(R13, 128*t.subs())
	}
	t.ADDQ(step, act)
	t.ADDQ(step, sixthRow)
	t.SUBQ(Imm(1), blocks)
	t.JNZ(LabelRef("loop"))
	t.store(out, ld)
	t.ADDQ(t.Slot("next"), act)
	t.SUBQ(Imm(1), t.Slot("tiles"))
	t.JNZ(LabelRef("tile"))
	t.VZEROUPPER()
	t.RET()
}

// start sets the float sums to zero or to what out holds, and prefetches the next tile's part of out; it uses R13 and R14.
func (t *tile256) start(frame Mem, out, ld GPPhysical) {
	if t.rows == tileRows { // fewer are the last
		t.LEAQ(Mem{Base: ld, Index: ld, Scale: 2}, R14)
		t.LEAQ(Mem{Base: out, Index: R14, Scale: 2}, R13)
		for range tileRows {
			t.PREFETCHW(R13, 0)
			t.ADDQ(ld, R13)
		}
	}
	t.load(frame, out, ld)
}
