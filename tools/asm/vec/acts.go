package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
	"github.com/ridge-llm/ridge/tools/asm/series"
)

// acts writes the functions of feed-forward blocks and gates, alone and times another array, the soft cap, and the exponential.
func acts(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		for _, f := range []struct {
			name, doc string
			body      func(emit.Width)
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
				in: []string{"x"}, out: "y", body: func(bool) { f.body(w) }}.write(w)
			loop{name: f.name + "Mul", signature: "func(y, x, up *float32, n int)", doc: "is y = up·" + f.doc + ".",
				in: []string{"x", "up"}, out: "y",
				body: func(bool) {
					f.body(w)
					w.VMULPS(w.Reg(1), w.Reg(0), w.Reg(0))
				}}.write(w)
		}
		loop{name: "softcap", signature: "func(y, x *float32, by, limit float32, n int)", doc: "is y = limit·tanh(x·by).",
			in: []string{"x"}, out: "y", scalars: []scalar{{"by", 10}, {"limit", 11}},
			body: func(bool) {
				w.VMULPS(w.Reg(10), w.Reg(0), w.Reg(0))
				tanh(w)
				w.VMULPS(w.Reg(11), w.Reg(0), w.Reg(0))
			}}.write(w)
		loop{name: "exp", signature: "func(y, x *float32, by float32, n int)", doc: "is y = exp(x·by).",
			in: []string{"x"}, out: "y", scalars: []scalar{{"by", 10}},
			body: func(bool) {
				w.VMULPS(w.Reg(10), w.Reg(0), w.Reg(2))
				w.Exp(w.Reg(2), w.Reg(0), w.Reg(4))
			}}.write(w)
	}
}

// sigmoid makes register 0 = register 0 / (1 + exp(-register 2)). Like all bodies here it leaves register 1 alone.
func sigmoid(w emit.Width) {
	w.Xor(w.RepeatBits("sign", 1<<31), w.Reg(2), w.Reg(2))
	w.Exp(w.Reg(2), w.Reg(3), w.Reg(4))
	w.VADDPS(w.Repeat("one", 1), w.Reg(3), w.Reg(3))
	w.VDIVPS(w.Reg(3), w.Reg(0), w.Reg(0))
}

func silu(w emit.Width) {
	w.Move(w.Reg(0), w.Reg(2))
	sigmoid(w)
}

// geluTanh uses ½(1 + tanh(u)) = sigmoid(2u).
func geluTanh(w emit.Width) {
	w.VMULPS(w.Reg(0), w.Reg(0), w.Reg(2))
	w.Move(w.Repeat("geluCube", 2*0.7978845608028654*0.044715), w.Reg(3))
	w.VFMADD213PS(w.Repeat("geluLine", 2*0.7978845608028654), w.Reg(3), w.Reg(2))
	w.VMULPS(w.Reg(0), w.Reg(2), w.Reg(2))
	sigmoid(w)
}

// geluErf takes the tail E = ½ erfc(|x|/√2) and is x·E below zero and x·(1 - E) above, so that small results are as
// exact as large ones.
func geluErf(w emit.Width) {
	x, abs, square, low, t, tail := w.Reg(0), w.Reg(2), w.Reg(3), w.Reg(5), w.Reg(6), w.Reg(7)
	w.And(w.RepeatBits("positive", math.MaxInt32), x, abs)
	w.VMINPS(w.Repeat("erfcEnd", 20), abs, abs) // the square of more would be infinite
	w.VMULPS(abs, abs, square)
	w.Move(square, low)
	w.VFMSUB231PS(abs, abs, low) // what the square lost in rounding
	w.VMULPS(w.Repeat("minusHalf", -0.5), square, square)
	w.VMULPS(w.Repeat("minusHalf", -0.5), low, low)
	w.Exp(square, tail, w.Reg(4))
	w.VFMADD213PS(tail, tail, low)
	w.Move(low, tail)
	w.Move(w.Repeat("quarter", 0.25), t)
	w.VFMADD213PS(w.Repeat("one", 1), abs, t)
	w.Move(w.Repeat("one", 1), w.Reg(8))
	w.VDIVPS(t, w.Reg(8), t)
	w.VMULPS(t, tail, tail)
	w.Polynomial("erfc", series.Erfc, t, w.Reg(8))
	w.VMULPS(w.Reg(8), tail, tail)
	w.Move(w.Repeat("one", 1), w.Reg(8))
	w.VSUBPS(tail, w.Reg(8), w.Reg(8))
	w.VMULPS(x, w.Reg(8), w.Reg(8)) // x·(1 - E)
	w.VMULPS(x, tail, tail)         // x·E
	blendNegative(w, w.Reg(0), tail, w.Reg(8))
}

// relu keeps NaN.
func relu(w emit.Width) {
	w.Zero(w.Reg(2))
	w.VMAXPS(w.Reg(0), w.Reg(2), w.Reg(0))
}

func reluSquare(w emit.Width) {
	relu(w)
	w.VMULPS(w.Reg(0), w.Reg(0), w.Reg(0))
}

func logistic(w emit.Width) {
	w.Move(w.Reg(0), w.Reg(2))
	w.Move(w.Repeat("one", 1), w.Reg(0))
	sigmoid(w)
}

// softplus is max(x, 0) + ln(1 + exp(-|x|)), exact in its small results too.
func softplus(w emit.Width) {
	x, small, u := w.Reg(0), w.Reg(2), w.Reg(3)
	w.Or(w.RepeatBits("sign", 1<<31), x, small)
	w.Exp(small, u, w.Reg(4))
	w.Polynomial("log1p", series.Log1p, u, w.Reg(5))
	relu(w)
	w.VFMADD231PS(w.Reg(5), u, x)
}

// tanh makes register 0 its hyperbolic tangent: a polynomial where it is about x, and 1 - 2/(exp(2|x|) + 1) with x's sign
// from 0.6 on.
func tanh(w emit.Width) {
	x, square, near, far := w.Reg(0), w.Reg(2), w.Reg(3), w.Reg(5)
	w.VMULPS(x, x, square)
	w.Polynomial("tanh", series.Tanh, square, near)
	w.VMULPS(square, near, near)
	w.VFMADD213PS(x, x, near)
	w.And(w.RepeatBits("positive", math.MaxInt32), x, w.Reg(6))
	w.VADDPS(w.Reg(6), w.Reg(6), w.Reg(7))
	w.Exp(w.Reg(7), far, w.Reg(4))
	w.VADDPS(w.Repeat("one", 1), far, far)
	w.Move(w.Repeat("two", 2), w.Reg(7))
	w.VDIVPS(far, w.Reg(7), far)
	w.Move(w.Repeat("one", 1), w.Reg(7))
	w.VSUBPS(far, w.Reg(7), far)
	w.And(w.RepeatBits("sign", 1<<31), x, w.Reg(7))
	w.Or(w.Reg(7), far, far)
	w.VSUBPS(w.Repeat("tanhSplit", 0.6), w.Reg(6), w.Reg(6)) // negative where |x| < 0.6
	w.Move(w.Reg(6), x)
	blendNegative(w, x, near, far)
}

// blendNegative makes s = negative where s's sign bit is set, and other elsewhere.
func blendNegative(w emit.Width, s, negative, other Op) {
	if w.AVX512() {
		w.VPMOVD2M(s, K2)
		w.VBLENDMPS(negative, other, K2, s)
		return
	}
	w.VBLENDVPS(s, negative, other, s)
}
