package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// dotRows is a function that multiplies an input with rows of weights, one behind the other: a call for each would cost a tenth of the time that reading one
// takes. The code of a row uses at, src and left, and may use RAX and RBX.
type dotRows struct {
	emit.Width
	at, src, left                 GPPhysical // the input, the row, and steps, for the code of a row to move
	x, row, n, out, count, stride GPPhysical
}

// beginRows starts one; what sets constants up comes before begin.
func beginRows(w emit.Width, name, input, doc, arguments string) dotRows {
	w.Func(name, "func(out *float32, x "+input+", src *byte, n, rows, stride int"+arguments+")",
		name+" multiplies rows, stride bytes apart, of n "+doc+".")
	r := dotRows{w, RDI, RSI, RCX, R8, R9, R10, R11, R12, R13}
	w.Arg("x", r.x)
	w.Arg("src", r.row)
	w.Arg("n", r.n)
	w.Arg("out", r.out)
	w.Arg("rows", r.count)
	w.Arg("stride", r.stride)
	return r
}

// begin starts the code of a row.
func (r dotRows) begin() {
	r.Label("row")
	r.MOVQ(r.x, r.at)
	r.MOVQ(r.row, r.src)
	r.MOVQ(r.n, r.left)
}

// behind is the scale behind a row that has one.
func (r dotRows) behind() Mem { return emit.Indexed(r.row, r.stride, 1, -4) }

// end stores the product, in X0, and ends the function.
func (r dotRows) end() {
	r.VMOVSS(X0, emit.At(r.out, 0))
	r.Advance(r.out, 4)
	r.ADDQ(r.stride, r.row)
	r.SUBQ(Imm(1), r.count)
	r.JNZ(LabelRef("row"))
	r.VZEROUPPER()
	r.RET()
}
