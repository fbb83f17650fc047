package emit

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/series"
)

// Repeat is a read-only vector that repeats the float32 v; asking for the same name again gives the same vector.
func (w Width) Repeat(name string, v float32) operand.Mem {
	return w.RepeatBits(name, math.Float32bits(v))
}

// RepeatBits does so for any 32 bits.
func (w Width) RepeatBits(name string, v uint32) operand.Mem {
	if m, ok := w.constants[name]; ok {
		return m
	}
	m := w.Constant(name)
	for i := 0; i < w.Bytes; i += 4 {
		w.AddDatum(i, operand.U32(v))
	}
	w.constants[name] = m
	return m
}

// Polynomial is y = c[0]·xⁿ + … + c[n] by Horner's rule; name names its coefficients.
func (w Width) Polynomial(name string, c []float32, x, y reg.VecPhysical) {
	w.Move(w.Repeat(name+"0", c[0]), y)
	for i, v := range c[1:] {
		w.VFMADD213PS(w.Repeat(fmt.Sprintf("%s%d", name, i+1), v), x, y)
	}
}

// Exp2 is y = 2ˣ for x ≤ 0, to 2 ulp, 0 below 2⁻¹²⁷ at the latest (2⁻¹⁴⁹ with AVX-512), and NaN for NaN; x and t are overwritten.
func (w Width) Exp2(x, y, t reg.VecPhysical) {
	if !w.AVX512() {
		w.Move(w.Repeat("exp2Low", -127), w.Reg(15))
		w.VMAXPS(x, w.Reg(15), x)
	}
	w.Round(x, t)
	w.VSUBPS(t, x, x)
	w.Polynomial("exp2C", series.Exp2, x, y)
	if w.AVX512() {
		w.VSCALEFPS(t, y, y)
	} else {
		w.scale(t, y)
	}
}

// Exp is y = eˣ to 2 ulp with the ends of Exp2; x and t are overwritten.
func (w Width) Exp(x, y, t reg.VecPhysical) {
	w.clamp("exp", x, -127*math.Ln2, 128*math.Ln2)
	w.VMULPS(w.Repeat("expLog2e", math.Log2E), x, t)
	w.Round(t, t)
	w.VFNMADD231PS(w.Repeat("expLn2High", series.Ln2High), t, x)
	w.VFNMADD231PS(w.Repeat("expLn2Low", series.Ln2Low), t, x)
	w.Polynomial("expC", series.Exp, x, y)
	w.scale(t, y)
}

// clamp keeps x in [low, high]; NaN stays NaN, which the order of the operands decides.
func (w Width) clamp(name string, x reg.VecPhysical, low, high float32) {
	t := w.Reg(15)
	w.Move(w.Repeat(name+"Low", low), t)
	w.VMAXPS(x, t, x)
	w.Move(w.Repeat(name+"High", high), t)
	w.VMINPS(x, t, x)
}

// scale is y = y·2ⁿ for whole n in [-127, 128], by way of the exponent's bits; -127 gives zero. n is overwritten.
func (w Width) scale(n, y reg.VecPhysical) {
	w.VCVTPS2DQ(n, n)
	w.VPADDD(w.RepeatBits("exponentBias", 127), n, n)
	w.VPSLLD(operand.U8(23), n, n)
	w.VMULPS(n, y, y)
}

// Round is y = x rounded to the nearest whole number.
func (w Width) Round(x, y reg.VecPhysical) {
	if w.AVX512() {
		w.VRNDSCALEPS(operand.U8(0), x, y)
	} else {
		w.VROUNDPS(operand.U8(0), x, y)
	}
}

// ReduceLanes leaves the sum (or, by VMAXPS, the maximum) of all lanes of r in its lowest one; t is overwritten.
func (w Width) ReduceLanes(join func(...operand.Op), r, t int) {
	if w.AVX512() {
		w.VEXTRACTF64X4(operand.U8(1), w.Reg(r), w.Reg(t).AsY())
		join(w.Reg(t).AsY(), w.Reg(r).AsY(), w.Reg(r).AsY())
	}
	x, y := w.Quarter(r), w.Quarter(t)
	w.VEXTRACTF128(operand.U8(1), w.Reg(r).AsY(), y)
	join(y, x, x)
	w.VPSHUFD(operand.U8(0b01001110), x, y)
	join(y, x, x)
	w.VPSHUFD(operand.U8(0b10110001), x, y)
	join(y, x, x)
}
