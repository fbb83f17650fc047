package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// tileRows is how many rows of activations are multiplied at a time.
const tileRows = 6

// Registers of the tile kernels.
const (
	tileInt    = 0
	tileFloat  = 12
	tileWeight = 24 // two
	tileCast   = 26
	tileOffset = 27 // two
)

// aheadLines is how many cache lines of the next codes and of their scales each block of a tile prefetches.
var aheadLines = [2]int{2, 1}

// tile is the GEMM micro-kernel: it streams many tiles of activations past one panel of unpacked weights. Its float operations and their order are those of the dot kernels, so that a row's result does not
// depend on the size of the batch.
type tile struct {
	*codes
	mins bool
	act  [6]Mem
}

// tiles writes the kernels for both widths of scales, with and without minima.
func tiles(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		consts := writeConstants(w)
		for _, f := range layouts {
			if f.planes == 8 {
				for _, mins := range []bool{false, true} {
					tile{codes: &codes{Width: w, layout: f, magic: consts.magic}, mins: mins}.kernel()
				}
			}
		}
	}
}

// kernel writes one of them. Registers: RDI out, RSI its rows' distance, RDX activations, RCX their rows' distance, R15 that
// of their blocks, RAX codes, RBX scales, R13 minima, R8 blocks left, R11 and R12 prefetch addresses.
func (t tile) kernel() {
	name := "tiles" + t.name
	if t.mins {
		name += "Min"
	}
	name += t.Suffix()
	t.Func(name, "func(out *float32, ld int, fresh bool, w *byte, scale, mins *float32, act *byte, stride, step, next, blocks, tiles int, codes, codesEnd, scales, scalesEnd uintptr)",
		fmt.Sprintf("%s adds the products of tiles of %d rows of activations with 32 rows of weights to out, or sets out to them.", name, tileRows))
	out, ld := t.Arg("out", RDI), t.Arg("ld", RSI)
	act, stride, step := t.Arg("act", RDX), t.Arg("stride", RCX), t.Arg("step", R15)
	ahead := [2]GPPhysical{t.Arg("codes", R11), t.Arg("scales", R12)}
	t.Label("tile")
	weights, scale, blocks := t.Arg("w", RAX), t.Arg("scale", RBX), t.Arg("blocks", R8)
	for i, end := range []string{"codesEnd", "scalesEnd"} {
		t.CMPQ(ahead[i], t.Slot(end))
		t.CMOVQCC(weights, ahead[i]) // the panel, which is in the cache: there is nothing left to prefetch
	}
	t.start(out, ld)
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
	t.block(weights, scale, act, R13)
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
			t.VMOVUPS(t.float(r, v), emit.At(out, v*t.Bytes))
		}
		t.ADDQ(ld, out)
	}
	t.ADDQ(t.Slot("next"), act)
	t.SUBQ(Imm(1), t.Slot("tiles"))
	t.JNZ(LabelRef("tile"))
	t.VZEROUPPER()
	t.RET()
}

// subs is how many scales a block of 32 has.
func (t tile) subs() int {
	if t.sub16 {
		return 2
	}
	return 1
}

// start sets the float sums to zero or to what out holds, and prefetches the next tile's part of out: its rows lie pages
// apart, and waiting for them took a fifth of the time.
func (t tile) start(out, ld GPPhysical) {
	t.LEAQ(Mem{Base: ld, Index: ld, Scale: 2}, R14)
	t.LEAQ(Mem{Base: out, Index: R14, Scale: 2}, R14)
	t.Load(t.Param("fresh"), R13.As8L())
	t.TESTB(R13.As8L(), R13.As8L())
	t.JNZ(LabelRef("fresh"))
	t.MOVQ(out, R13)
	for r := range tileRows {
		for v := range 2 {
			t.VMOVUPS(emit.At(R13, v*t.Bytes), t.float(r, v))
		}
		t.ADDQ(ld, R13)
	}
	t.JMP(LabelRef("next"))
	t.Label("fresh")
	for r := range tileRows {
		for v := range 2 {
			t.Zero(t.float(r, v))
		}
	}
	t.Label("next")
	for range tileRows {
		for v := range 2 {
			t.PREFETCHW(R14, v*t.Bytes)
		}
		t.ADDQ(ld, R14)
	}
}

// block is 32 k: the products of every row, times the weights' scales, times the row's.
func (t tile) block(weights, scale, act, mins GPPhysical) {
	for sub := range t.subs() {
		at := q8Bias
		if t.sub16 {
			at = q8Bias16 + 4*sub
		}
		for r := range tileRows {
			for v := range 2 {
				t.VPBROADCASTD(t.q8(act, r, at), t.int(r, v))
			}
		}
		for j := sub * 8 / t.subs(); j < (sub+1)*8/t.subs(); j++ {
			t.products(weights, act, j)
		}
		t.scaled(scale, act, mins, sub)
	}
}

func (t tile) int(r, v int) VecPhysical   { return t.Reg(tileInt + 2*r + v) }
func (t tile) float(r, v int) VecPhysical { return t.Reg(tileFloat + 2*r + v) }

// q8 is byte disp of row r's Q8 block.
func (t tile) q8(act GPPhysical, r, disp int) Mem { return t.act[r].Offset(disp) }

// products adds group j of every row.
func (t tile) products(weights, act GPPhysical, j int) {
	for v := range 2 {
		t.Move(emit.At(weights, 128*j+v*t.Bytes), t.Reg(tileWeight+v))
	}
	for r := range tileRows {
		t.VPBROADCASTD(t.q8(act, r, 4*j), t.Reg(tileCast))
		for v := range 2 {
			t.Dot(t.Reg(tileCast), t.Reg(tileWeight+v), t.int(r, v))
		}
	}
}

// scaled adds the scaled integer sums to the float sums, see dot.scaled; after the last, minima × scale × sum of the
// activations.
func (t tile) scaled(scale, act, mins GPPhysical, sub int) {
	for v := range 2 {
		t.VMOVUPS(emit.At(scale, sub*128+v*t.Bytes), t.Reg(tileWeight+v))
		t.VMULPS(t.magic, t.Reg(tileWeight+v), t.Reg(tileOffset+v))
	}
	for r := range tileRows {
		t.VBROADCASTSS(t.q8(act, r, q8Scale), t.Reg(tileCast))
		for v := range 2 {
			t.VFMSUB132PS(t.Reg(tileWeight+v), t.Reg(tileOffset+v), t.int(r, v))
			t.VFMADD231PS(t.Reg(tileCast), t.int(r, v), t.float(r, v))
		}
	}
	if t.mins && sub == t.subs()-1 {
		t.minima(act, mins)
	}
}

// minima adds them.
func (t tile) minima(act, mins GPPhysical) {
	at := q8Sum
	if t.sub16 {
		at = q8Sum + 4
	}
	for sub := range t.subs() {
		for v := range 2 {
			t.VMOVUPS(emit.At(mins, 128*sub+v*t.Bytes), t.Reg(tileWeight+v))
		}
		for r := range tileRows {
			t.VBROADCASTSS(t.q8(act, r, at+4*sub), t.Reg(tileCast))
			for v := range 2 {
				t.VFMADD231PS(t.Reg(tileCast), t.Reg(tileWeight+v), t.float(r, v))
			}
		}
	}
}
