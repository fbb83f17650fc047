package neon

import (
	"fmt"

	"github.com/ridge-llm/ridge/tools/asm/arm"
)

// element is a float format of weights as the row kernels read it: bytes of a number, and how eight become float32 in two
// registers.
type element struct {
	name  string
	bytes int
	load  func(a *arm.Asm, base arm.R, v arm.V)
}

var elements = []element{
	{"F32", 4, func(a *arm.Asm, base arm.R, v arm.V) { a.LoadPair(base, 0, v, v+1) }},
	{"F16", 2, func(a *arm.Asm, base arm.R, v arm.V) {
		a.LoadQ(base, 0, v+1)
		a.FromF16(v, v+1)
		a.FromF16High(v+1, v+1)
	}},
	{"BF16", 2, func(a *arm.Asm, base arm.R, v arm.V) {
		a.LoadQ(base, 0, v+1)
		a.FromBF16(v, v+1)
		a.FromBF16High(v+1, v+1)
	}},
}

// General registers: of rows of weights; those of activations are actRow and the two after it.
const firstWeight arm.R = 14

// rows writes the kernels for few rows of activations: vectors, of eight numbers, run along k in the weights' own
// row-major layout, so nothing is packed, and every weight is read once.
func rows(a *arm.Asm) {
	for _, e := range elements {
		rowKernel{a, e, 1, 1}.write()
		for acts := 1; acts <= 3; acts++ {
			rowKernel{a, e, 4, acts}.write()
		}
	}
}

type rowKernel struct {
	*arm.Asm
	element
	rows, acts int
}

// sum is the first of two sums, of even and of odd fours of k.
func (r rowKernel) sum(row, act int) arm.V { return arm.V(2 * (row*r.acts + act)) }

// weight is where a row of weights is read.
func (r rowKernel) weight(row int) arm.R { return firstWeight + arm.R(row) }

func (r rowKernel) write() {
	name := fmt.Sprintf("rows%sx%dx%dQ", r.name, r.rows, r.acts)
	r.Func(name, "func(out *float32, ld int, w *byte, wStride int, act *byte, stride int, n int)",
		fmt.Sprintf("%s adds the products of %d rows of weights and %d of activations, n vectors long, to out.", name, r.rows, r.acts))
	r.Arg("w", firstWeight)
	r.Arg("wStride", temporary)
	for row := 1; row < r.rows; row++ {
		r.AddR(temporary, r.weight(row-1), r.weight(row))
	}
	r.Arg("act", actRow)
	r.Arg("stride", temporary)
	for act := 1; act < r.acts; act++ {
		r.AddR(temporary, actRow+arm.R(act-1), actRow+arm.R(act))
	}
	r.Arg("n", count)
	for i := range 2 * r.rows * r.acts {
		r.Zero(arm.V(i))
	}
	const firstAct, weight arm.V = 24, 30
	r.Label("loop")
	for act := range r.acts {
		r.LoadPair(actRow+arm.R(act), 0, firstAct+arm.V(2*act), firstAct+arm.V(2*act)+1)
		r.Advance(actRow+arm.R(act), 32)
	}
	for row := range r.rows {
		r.load(r.Asm, r.weight(row), weight)
		r.Advance(r.weight(row), 8*r.bytes)
		for act := range r.acts {
			for i := range arm.V(2) {
				r.FMla(r.sum(row, act)+i, weight+i, firstAct+arm.V(2*act)+i)
			}
		}
	}
	r.Loop(count, "loop")
	r.store()
	r.Ret()
}

// store adds the sums to out.
func (r rowKernel) store() {
	r.Arg("out", out)
	r.Arg("ld", ld)
	const held arm.V = 30
	for act := range r.acts {
		for row := range r.rows {
			r.FAdd(r.sum(row, act), r.sum(row, act), r.sum(row, act)+1)
		}
		sum := r.sum(0, act)
		if r.rows == 4 {
			r.FAddPairs(sum, sum, r.sum(1, act))
			r.FAddPairs(r.sum(2, act), r.sum(2, act), r.sum(3, act))
			r.FAddPairs(sum, sum, r.sum(2, act))
			r.LoadQ(out, 0, held)
			r.FAdd(sum, sum, held)
			r.StoreQ(sum, out, 0)
		} else {
			r.FAddPairs(sum, sum, sum)
			r.FAddPairs(sum, sum, sum)
			r.LoadS(out, 0, held)
			r.FAdd(sum, sum, held)
			r.StoreS(sum, out, 0)
		}
		r.AddR(ld, out, out)
	}
}
