package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// rows writes the sums and norms of rows.
func rows(a *arm.Asm) {
	dot(a)
	for _, l := range []loop{
		{name: "sum", signature: "func(x *float32, n int) float32", doc: "is Σ x[i].",
			in: []string{"x"}, sums: true,
			body: func(bool) { a.FAdd(12, 12, 0) }},
		{name: "add", signature: "func(y, x, z *float32, n int)", doc: "is y[i] = x[i] + z[i].",
			in: []string{"x", "z"}, out: "y",
			body: func(bool) { a.FAdd(0, 0, 1) }},
		{name: "addSquares", signature: "func(y, x, z *float32, n int) float32", doc: "is y[i] = x[i] + z[i]; it returns Σ y[i]².",
			in: []string{"x", "z"}, out: "y", sums: true,
			body: func(bool) {
				a.FAdd(0, 0, 1)
				a.FMla(12, 0, 0)
			}},
		{name: "scale", signature: "func(y, x, weight *float32, f float32, n int)", doc: "is y[i] = x[i]·f·weight[i].",
			in: []string{"x", "weight"}, out: "y", scalars: []scalar{{"f", 10}},
			body: func(bool) {
				a.FMul(0, 0, 10)
				a.FMul(0, 0, 1)
			}},
		{name: "center", signature: "func(y, x *float32, mean float32, n int) float32", doc: "is y[i] = x[i] - mean; it returns Σ y[i]².",
			in: []string{"x"}, out: "y", scalars: []scalar{{"mean", 10}}, sums: true,
			body: func(single bool) {
				a.FSub(0, 0, 10)
				if single { // the other lanes are -mean now
					a.KeepLowest(0, 0)
				}
				a.FMla(12, 0, 0)
			}},
		{name: "affine", signature: "func(y, weight, bias *float32, f float32, n int)", doc: "is y[i] = y[i]·f·weight[i] + bias[i].",
			in: []string{"y", "weight", "bias"}, out: "y", scalars: []scalar{{"f", 10}},
			body: func(bool) {
				a.FMul(0, 0, 10)
				a.FMla(2, 0, 1)
				a.Copy(0, 2)
			}},
		{name: "axpby", signature: "func(y, x *float32, f, other float32, n int)", doc: "is y[i] = y[i]·f + x[i]·other.",
			in: []string{"y", "x"}, out: "y", scalars: []scalar{{"f", 10}, {"other", 11}},
			body: func(bool) {
				a.FMul(0, 0, 10)
				a.FMla(0, 1, 11)
			}},
		{name: "addProduct", signature: "func(y, x, z *float32, n int)", doc: "is y[i] = y[i] + x[i]·z[i].",
			in: []string{"y", "x", "z"}, out: "y",
			body: func(bool) { a.FMla(0, 1, 2) }},
		{name: "multiply", signature: "func(y, x *float32, f float32, n int)", doc: "is y[i] = x[i]·f.",
			in: []string{"x"}, out: "y", scalars: []scalar{{"f", 10}},
			body: func(bool) { a.FMul(0, 0, 10) }},
	} {
		l.write(a)
	}
}

// dot has eight sums in flight, which fill two multipliers of four cycles.
func dot(a *arm.Asm) {
	a.Func("dotQ", "func(x, y *float32, n int) float32", "dotQ is Σ x[i]·y[i].")
	x, y, n := a.Arg("x", 0), a.Arg("y", 1), a.Arg("n", counter)
	const sums = 8
	for i := range sums {
		a.Zero(arm.V(i))
	}
	block := func(label string, vectors int) {
		groups(a, label, n, 4*vectors, func() {
			for i := range vectors {
				a.LoadQ(x, 16*i, arm.V(16+i))
				a.LoadQ(y, 16*i, arm.V(24+i))
				a.FMla(arm.V(i), arm.V(16+i), arm.V(24+i))
			}
			a.Advance(x, 16*vectors)
			a.Advance(y, 16*vectors)
		})
	}
	block("eight", sums)
	block("one", 1)
	a.IfZero(n, "sums")
	a.Label("single")
	a.LoadS(x, 0, 16)
	a.LoadS(y, 0, 24)
	a.FMla(1, 16, 24)
	a.Advance(x, 4)
	a.Advance(y, 4)
	a.Loop(n, "single")
	a.Label("sums")
	returnSums(a, sums)
}
