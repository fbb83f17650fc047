package neon

import (
	"github.com/ridge-llm/ridge/tools/asm/arm"
	"github.com/ridge-llm/ridge/tools/asm/series"
)

// acts writes the functions of feed-forward blocks and gates, alone and times another array, the soft cap, and the exponential.
func acts(a *arm.Asm) {
	for _, f := range []struct {
		name, doc string
		body      func(*arm.Asm)
	}{
		{"silu", "x·sigmoid(x)", silu},
		{"geluTanh", "½x(1 + tanh(√(2/π)(x + 0.044715x³)))", geluTanh},
		{"geluErf", "½x(1 + erf(x/√2))", geluErf},
		{"relu", "max(x, 0)", relu},
		{"reluSquare", "max(x, 0)²", reluSquare},
		{"logistic", "sigmoid(x)", logistic},
		{"softplus", "ln(1 + eˣ)", softplus},
	} {
		loop{name: f.name, signature: "func(y, x *float32, n int)", doc: "is y = " + f.doc + ".",
			in: []string{"x"}, out: "y", body: func(bool) { f.body(a) }}.write(a)
		loop{name: f.name + "Mul", signature: "func(y, x, up *float32, n int)", doc: "is y = up·" + f.doc + ".",
			in: []string{"x", "up"}, out: "y",
			body: func(bool) {
				f.body(a)
				a.FMul(0, 0, 1)
			}}.write(a)
	}
	loop{name: "softcap", signature: "func(y, x *float32, by, limit float32, n int)", doc: "is y = limit·tanh(x·by).",
		in: []string{"x"}, out: "y", scalars: []scalar{{"by", 10}, {"limit", 11}},
		body: func(bool) {
			a.FMul(0, 0, 10)
			tanh(a)
			a.FMul(0, 0, 11)
		}}.write(a)
	loop{name: "exp", signature: "func(y, x *float32, by float32, n int)", doc: "is y = exp(x·by).",
		in: []string{"x"}, out: "y", scalars: []scalar{{"by", 10}},
		body: func(bool) {
			a.FMul(2, 0, 10)
			a.Exp(2, 0, 4)
		}}.write(a)
}

// sigmoid makes register 0 = register 0 / (1 + exp(-register 2)). Like all bodies here it leaves register 1 alone.
func sigmoid(a *arm.Asm) {
	a.FNeg(2, 2)
	a.Exp(2, 3, 4)
	a.FAdd(3, 3, a.Float(1))
	a.FDiv(0, 0, 3)
}

func silu(a *arm.Asm) {
	a.Copy(2, 0)
	sigmoid(a)
}

// geluTanh uses ½(1 + tanh(u)) = sigmoid(2u).
func geluTanh(a *arm.Asm) {
	const line = 2 * 0.7978845608028654
	a.FMul(3, 0, 0)
	a.Load(a.Floats(line), 2)
	a.FMla(2, 3, a.Float(line*0.044715))
	a.FMul(2, 2, 0)
	sigmoid(a)
}

// geluErf takes the tail E = ½ erfc(|x|/√2) and is x·E below zero and x·(1 - E) above, so that small results are as
// exact as large ones.
func geluErf(a *arm.Asm) {
	const x, abs, square, low, t, tail, rest = 0, 2, 3, 5, 6, 7, 8
	a.FAbs(abs, x)
	a.FMin(abs, abs, a.Float(20)) // the square of more would be infinite
	a.FMul(square, abs, abs)
	a.FNeg(low, square)
	a.FMla(low, abs, abs) // what the square lost in rounding
	a.FMul(square, square, a.Float(-0.5))
	a.FMul(low, low, a.Float(-0.5))
	a.Exp(square, rest, 4)
	a.Copy(tail, rest)
	a.FMla(tail, rest, low)
	a.Load(a.Floats(1), t)
	a.FMla(t, abs, a.Float(0.25))
	a.Load(a.Floats(1), rest)
	a.FDiv(t, rest, t)
	a.FMul(tail, tail, t)
	a.Polynomial(series.Erfc, t, rest)
	a.FMul(tail, tail, rest)
	a.FSub(rest, a.Float(1), tail)
	a.FMul(rest, rest, x) // x·(1 - E)
	a.FMul(tail, tail, x) // x·E
	a.FNegative(x, x)
	a.Choose(x, tail, rest)
}

// relu keeps NaN.
func relu(a *arm.Asm) {
	a.Zero(2)
	a.FMax(0, 0, 2)
}

func reluSquare(a *arm.Asm) {
	relu(a)
	a.FMul(0, 0, 0)
}

func logistic(a *arm.Asm) {
	a.Copy(2, 0)
	a.Load(a.Floats(1), 0)
	sigmoid(a)
}

// softplus is max(x, 0) + ln(1 + exp(-|x|)), exact in its small results too.
func softplus(a *arm.Asm) {
	const x, small, u, log = 0, 2, 3, 5
	a.FAbs(small, x)
	a.FNeg(small, small)
	a.Exp(small, u, 4)
	a.Polynomial(series.Log1p, u, log)
	relu(a)
	a.FMla(x, log, u)
}

// tanh makes register 0 its hyperbolic tangent: a polynomial where it is about x, and 1 - 2/(exp(2|x|) + 1) with x's
// sign from 0.6 on.
func tanh(a *arm.Asm) {
	const x, square, near, far, abs, t = 0, 2, 3, 5, 6, 7
	a.FMul(square, x, x)
	a.Polynomial(series.Tanh, square, t)
	a.FMul(t, t, square)
	a.Copy(near, x)
	a.FMla(near, t, x)
	a.FAbs(abs, x)
	a.FAdd(t, abs, abs)
	a.Exp(t, far, 4)
	a.FAdd(far, far, a.Float(1))
	a.FDiv(far, a.Float(2), far)
	a.FSub(far, a.Float(1), far)
	a.Insert(far, x, a.Word(1<<31))
	a.FSub(abs, abs, a.Float(0.6))
	a.FNegative(x, abs)
	a.Choose(x, near, far)
}
