package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// tile is how many keys a row of scores has.
const tile = 64

// softmax writes the step of the online softmax: for each of n rows of 64 scores, the running maximum is updated,
// they become P = 2^(score - max), and the running sum and the rescale factor of what was accumulated before follow.
func softmax(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		name := "softmax" + w.Suffix()
		w.Func(name, "func(scores, rowMax, rowSum, rescale *float32, n int)", name+" brings n rows of 64 scores into the running maximum and rowSum.")
		scores, rowMax, rowSum, rescale := w.Arg("scores", RDI), w.Arg("rowMax", RSI), w.Arg("rowSum", RDX), w.Arg("rescale", RBX)
		n := w.Arg("n", RCX)
		vectors := 4 * tile / w.Bytes
		w.Label("row")
		for i := range vectors {
			if at := emit.At(scores, i*w.Bytes); i < 4 {
				w.VMOVUPS(at, w.Reg(i))
			} else {
				w.VMAXPS(at, w.Reg(i%4), w.Reg(i%4))
			}
		}
		w.VMAXPS(w.Reg(1), w.Reg(0), w.Reg(0))
		w.VMAXPS(w.Reg(3), w.Reg(2), w.Reg(2))
		w.VMAXPS(w.Reg(2), w.Reg(0), w.Reg(0))
		w.ReduceLanes(w.VMAXPS, 0, 1)
		w.VMOVSS(emit.At(rowMax, 0), X14)
		w.VMAXSS(X0, X14, X0)
		w.VMOVSS(X0, emit.At(rowMax, 0))
		w.VSUBSS(X0, X14, X14)
		w.VBROADCASTSS(X0, w.Reg(12))
		w.Zero(w.Reg(13))
		for first := 0; first < vectors; first += 4 {
			for i := range 4 {
				at := emit.At(scores, (first+i)*w.Bytes)
				w.VMOVUPS(at, w.Reg(i))
				w.VSUBPS(w.Reg(12), w.Reg(i), w.Reg(i))
				w.Exp2(w.Reg(i), w.Reg(4+i), w.Reg(8+i))
				w.VMOVUPS(w.Reg(4+i), at)
				w.VADDPS(w.Reg(4+i), w.Reg(13), w.Reg(13))
			}
		}
		w.Exp2(w.Reg(14), w.Reg(4), w.Reg(8))
		w.VMOVSS(X4, emit.At(rescale, 0))
		w.ReduceLanes(w.VADDPS, 13, 1)
		w.VFMADD231SS(emit.At(rowSum, 0), X4, X13)
		w.VMOVSS(X13, emit.At(rowSum, 0))
		w.Advance(scores, 4*tile)
		w.Advance(rowMax, 4)
		w.Advance(rowSum, 4)
		w.Advance(rescale, 4)
		w.DECQ(n)
		w.JNZ(LabelRef("row"))
		w.VZEROUPPER()
		w.RET()
	}
}
