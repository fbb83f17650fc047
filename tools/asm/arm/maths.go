package arm

import (
	"math"

	"github.com/ridge-llm/ridge/tools/asm/series"
)

// Registers that the functions below use for constants.
const (
	constant V = 31
	other    V = 30
)

// Float loads a float32 into every lane of register 31 and returns that.
func (a *Asm) Float(v float32) V { return a.Word(math.Float32bits(v)) }

// Word does so for any 32 bits.
func (a *Asm) Word(v uint32) V {
	a.Load(a.Words(v), constant)
	return constant
}

// Polynomial is y = c[0]·xⁿ + … + c[n] by Horner's rule, alternating between y and register 30.
func (a *Asm) Polynomial(c []float32, x, y V) {
	from, to := y, other
	if len(c)%2 == 0 {
		from, to = to, from
	}
	a.Load(a.Floats(c[0]), from)
	for _, v := range c[1:] {
		a.Load(a.Floats(v), to)
		a.FMla(to, from, x)
		from, to = to, from
	}
}

// Exp2 is y = 2ˣ for x ≤ 0, to 2 ulp, 0 below 2⁻¹²⁷ at the latest, and NaN for NaN; x and t are overwritten.
func (a *Asm) Exp2(x, y, t V) {
	a.FMax(x, x, a.Float(-127))
	a.FRound(t, x)
	a.FSub(x, x, t)
	a.Polynomial(series.Exp2, x, y)
	a.scale(t, y)
}

// Exp is y = eˣ to 2 ulp with the ends of Exp2; x and t are overwritten.
func (a *Asm) Exp(x, y, t V) {
	a.FMax(x, x, a.Float(-127*math.Ln2))
	a.FMin(x, x, a.Float(128*math.Ln2))
	a.FMul(t, x, a.Float(math.Log2E))
	a.FRound(t, t)
	a.FMls(x, t, a.Float(series.Ln2High))
	a.FMls(x, t, a.Float(series.Ln2Low))
	a.Polynomial(series.Exp, x, y)
	a.scale(t, y)
}

// scale is y = y·2ⁿ for whole n in [-127, 128], by way of the exponent's bits; -127 gives zero. n is overwritten.
func (a *Asm) scale(n, y V) {
	a.ToInt(n, n)
	a.Add32(n, n, a.Word(127))
	a.Shift32(n, n, 23)
	a.FMul(y, y, n)
}
