package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// adapters writes the products with the two matrices of a LoRA adapter in bf16.
func adapters(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		dotBF16(w)
		addPanels(w)
	}
}

// widen loads a vector of bf16 as float32.
func widen(w emit.Width, from Mem, to VecPhysical) {
	w.VPMOVZXWD(from, to)
	w.VPSLLD(Imm(16), to, to)
}

// dotBF16 has four sums in flight: memory is slower.
func dotBF16(w emit.Width) {
	name := "dotBF16" + w.Suffix()
	w.Func(name, "func(x *float32, y *uint16, n int) float32", name+" is Σ x[i]·y[i] of n vectors.")
	x, y, n := w.Arg("x", RDI), w.Arg("y", RSI), w.Arg("n", RCX)
	const sums = 4
	for i := range sums {
		w.Zero(w.Reg(i))
	}
	block := func(label string, vectors int) {
		groups(w, label, n, vectors, func() {
			for i := range vectors {
				widen(w, emit.At(y, i*w.Bytes/2), w.Reg(8+i))
				w.VFMADD231PS(emit.At(x, i*w.Bytes), w.Reg(8+i), w.Reg(i))
			}
			w.Advance(x, vectors*w.Bytes)
			w.Advance(y, vectors*w.Bytes/2)
		})
	}
	block("four", sums)
	block("one", 1)
	returnSum(w, sums)
}

// panelColumns is vec.PanelColumns.
const panelColumns = 16

// addPanels keeps a panel's results in registers while it goes over the ranks, whose numbers lie one behind the other.
func addPanels(w emit.Width) {
	name := "addPanels" + w.Suffix()
	w.Func(name, "func(y *float32, b *uint16, h *float32, rank, n int)", name+" is y[i] += Σ h[r]·b[i / 16][r][i % 16], of n panels of 16.")
	y, b, h, rank, n := w.Arg("y", RDI), w.Arg("b", RSI), w.Arg("h", RDX), w.Arg("rank", RBX), w.Arg("n", RCX)
	vectors := panelColumns * 4 / w.Bytes
	const by, column = 8, 9
	w.Label("panel")
	for i := range vectors {
		w.VMOVUPS(emit.At(y, i*w.Bytes), w.Reg(i))
	}
	w.MOVQ(h, R8)
	w.MOVQ(rank, R9)
	w.Label("rank")
	w.VBROADCASTSS(emit.At(R8, 0), w.Reg(by))
	for i := range vectors {
		widen(w, emit.At(b, i*w.Bytes/2), w.Reg(column+i))
		w.VFMADD231PS(w.Reg(by), w.Reg(column+i), w.Reg(i))
	}
	w.Advance(b, 2*panelColumns)
	w.Advance(R8, 4)
	w.SUBQ(Imm(1), R9)
	w.JNZ(LabelRef("rank"))
	for i := range vectors {
		w.VMOVUPS(w.Reg(i), emit.At(y, i*w.Bytes))
	}
	w.Advance(y, 4*panelColumns)
	w.SUBQ(Imm(1), n)
	w.JNZ(LabelRef("panel"))
	w.VZEROUPPER()
	w.RET()
}
