package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// rows writes the sums and norms of rows.
func rows(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		dot(w)
		loop{name: "sum", signature: "func(x *float32, n int) float32", doc: "is Σ x[i].",
			in: []string{"x"}, result: total(w),
			body: func(bool) { w.VADDPS(w.Reg(0), w.Reg(12), w.Reg(12)) }}.write(w)
		loop{name: "add", signature: "func(y, x, z *float32, n int)", doc: "is y[i] = x[i] + z[i].",
			in: []string{"x", "z"}, out: "y",
			body: func(bool) { w.VADDPS(w.Reg(1), w.Reg(0), w.Reg(0)) }}.write(w)
		loop{name: "addSquares", signature: "func(y, x, z *float32, n int) float32", doc: "is y[i] = x[i] + z[i]; it returns Σ y[i]².",
			in: []string{"x", "z"}, out: "y", result: total(w),
			body: func(bool) {
				w.VADDPS(w.Reg(1), w.Reg(0), w.Reg(0))
				w.VFMADD231PS(w.Reg(0), w.Reg(0), w.Reg(12))
			}}.write(w)
		loop{name: "scale", signature: "func(y, x, weight *float32, f float32, n int)", doc: "is y[i] = x[i]·f·weight[i].",
			in: []string{"x", "weight"}, out: "y", scalars: []scalar{{"f", 10}},
			body: func(bool) {
				w.VMULPS(w.Reg(10), w.Reg(0), w.Reg(0))
				w.VMULPS(w.Reg(1), w.Reg(0), w.Reg(0))
			}}.write(w)
		loop{name: "center", signature: "func(y, x *float32, mean float32, n int) float32", doc: "is y[i] = x[i] - mean; it returns Σ y[i]².",
			in: []string{"x"}, out: "y", scalars: []scalar{{"mean", 10}}, result: total(w),
			body: func(tail bool) {
				w.VSUBPS(w.Reg(10), w.Reg(0), w.Reg(0))
				if tail { // the lanes beyond the end are -mean now
					squareTail(w)
				} else {
					w.VFMADD231PS(w.Reg(0), w.Reg(0), w.Reg(12))
				}
			}}.write(w)
		loop{name: "affine", signature: "func(y, weight, bias *float32, f float32, n int)", doc: "is y[i] = y[i]·f·weight[i] + bias[i].",
			in: []string{"y", "weight", "bias"}, out: "y", scalars: []scalar{{"f", 10}},
			body: func(bool) {
				w.VMULPS(w.Reg(10), w.Reg(0), w.Reg(0))
				w.VFMADD213PS(w.Reg(2), w.Reg(1), w.Reg(0))
			}}.write(w)
		loop{name: "axpby", signature: "func(y, x *float32, f, other float32, n int)", doc: "is y[i] = y[i]·f + x[i]·other.",
			in: []string{"y", "x"}, out: "y", scalars: []scalar{{"f", 10}, {"other", 11}},
			body: func(bool) {
				w.VMULPS(w.Reg(10), w.Reg(0), w.Reg(0))
				w.VFMADD231PS(w.Reg(11), w.Reg(1), w.Reg(0))
			}}.write(w)
		loop{name: "addProduct", signature: "func(y, x, z *float32, n int)", doc: "is y[i] = y[i] + x[i]·z[i].",
			in: []string{"y", "x", "z"}, out: "y",
			body: func(bool) { w.VFMADD231PS(w.Reg(2), w.Reg(1), w.Reg(0)) }}.write(w)
		loop{name: "multiply", signature: "func(y, x *float32, f float32, n int)", doc: "is y[i] = x[i]·f.",
			in: []string{"x"}, out: "y", scalars: []scalar{{"f", 10}},
			body: func(bool) { w.VMULPS(w.Reg(10), w.Reg(0), w.Reg(0)) }}.write(w)
	}
}

// squareTail adds the squares of the masked lanes of register 0.
func squareTail(w emit.Width) {
	if w.AVX512() {
		w.VFMADD231PS(w.Reg(0), w.Reg(0), K1, w.Reg(12))
		return
	}
	w.VANDPS(w.Reg(14), w.Reg(0), w.Reg(1))
	w.VFMADD231PS(w.Reg(1), w.Reg(1), w.Reg(12))
}

// dot has eight sums in flight, as many as two multipliers of four cycles can fill.
func dot(w emit.Width) {
	name := "dot" + w.Suffix()
	w.Func(name, "func(x, y *float32, n int) float32", name+" is Σ x[i]·y[i].")
	x, y, n := w.Arg("x", RDI), w.Arg("y", RSI), w.Arg("n", RCX)
	const sums = 8
	for i := range sums {
		w.Zero(w.Reg(i))
	}
	block := func(label string, vectors int) {
		groups(w, label, n, vectors*w.Bytes/4, func() {
			for i := range vectors {
				w.VMOVUPS(emit.At(x, i*w.Bytes), w.Reg(15))
				w.VFMADD231PS(emit.At(y, i*w.Bytes), w.Reg(15), w.Reg(i))
			}
			w.Advance(x, vectors*w.Bytes)
			w.Advance(y, vectors*w.Bytes)
		})
	}
	block("eight", sums)
	block("one", 1)
	w.JZ(LabelRef("sums"))
	w.TailMask(n)
	w.LoadTail(emit.At(x, 0), w.Reg(12))
	w.LoadTail(emit.At(y, 0), w.Reg(13))
	w.VFMADD231PS(w.Reg(12), w.Reg(13), w.Reg(1))
	w.Label("sums")
	returnSum(w, sums)
}
