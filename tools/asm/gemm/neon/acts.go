package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// acts writes the kernels that prepare activations and float weights.
func acts(a *arm.Asm) {
	quantize(a)
	convert(a, "widenF16", "func(dst *float32, src *byte, n int)", "turns 8 n half floats into float32.", 32, 16, func(dst, src arm.R) {
		a.LoadQ(src, 0, 0)
		a.FromF16(1, 0)
		a.FromF16High(2, 0)
		a.StorePair(1, 2, dst, 0)
	})
	convert(a, "widenBF16", "func(dst *float32, src *byte, n int)", "turns 8 n bfloats into float32.", 32, 16, func(dst, src arm.R) {
		a.LoadQ(src, 0, 0)
		a.FromBF16(1, 0)
		a.FromBF16High(2, 0)
		a.StorePair(1, 2, dst, 0)
	})
	convert(a, "narrowBF16", "func(dst *byte, src *float32, n int)", "rounds 16 n float32 to bf16, ties to even.", 32, 64, func(dst, src arm.R) {
		a.LoadPair(src, 0, 0, 1)
		a.LoadPair(src, 32, 2, 3)
		for i := arm.V(0); i < 2; i++ {
			a.ToBF16(4+i, 2*i)
			a.ToBF16High(4+i, 2*i+1)
		}
		a.StorePair(4, 5, dst, 0)
	})
}

// convert loops over n items of so many bytes.
func convert(a *arm.Asm, name, signature, doc string, dstBytes, srcBytes int, body func(dst, src arm.R)) {
	a.Func(name+"Q", signature, name+"Q "+doc)
	dst, src, n := a.Arg("dst", 0), a.Arg("src", 1), a.Arg("n", 2)
	a.Label("loop")
	body(dst, src)
	a.Advance(dst, dstBytes)
	a.Advance(src, srcBytes)
	a.Loop(n, "loop")
	a.Ret()
}

// quantize turns blocks of 32 float32 into Q8 blocks: 32 signed bytes, their scale, and the sums that the kernels need.
func quantize(a *arm.Asm) {
	convert(a, "quantizeQ8", "func(dst *byte, src *float32, n int)", "turns n blocks of 32 activations into Q8 blocks of 64 bytes.",
		q8BlockBytes, 128, func(dst, src arm.R) {
			const most, part, inverse, zero = 16, 17, 18, 19
			for i := arm.V(0); i < 8; i += 2 {
				a.LoadPair(src, 16*int(i), i, i+1)
			}
			// The largest magnitude, compared as integers so that a NaN wins and shows in the scale.
			for i := arm.V(0); i < 8; i++ {
				a.FAbs(8+i, i)
			}
			for half := arm.V(4); half > 0; half /= 2 {
				for i := arm.V(0); i < half; i++ {
					a.UMax32(8+i, 8+i, 8+half+i)
				}
			}
			a.UMaxAcross(most, 8)
			a.FMul(part, most, a.Word(0x3c010204)) // 1/127
			a.FDiv(inverse, a.Float(127), most)
			a.Zero(zero)
			a.FEqual(zero, most, zero)
			a.AndNot(inverse, inverse, zero) // a block of zeros must not divide by zero
			for i := arm.V(0); i < 8; i++ {
				a.FMulLane(i, i, inverse, 0)
				a.ToInt(i, i)
			}
			for i := arm.V(0); i < 2; i++ {
				a.Narrow32(8+2*i, 4*i)
				a.Narrow32High(8+2*i, 4*i+1)
				a.Narrow32(9+2*i, 4*i+2)
				a.Narrow32High(9+2*i, 4*i+3)
				a.Narrow16(i, 8+2*i)
				a.Narrow16High(i, 9+2*i)
			}
			a.StorePair(0, 1, dst, 0)
			a.StoreS(part, dst, q8Scale)
			sums(a, dst, part)
		})
}

// sums stores the integers and floats of a Q8 block that depend on the sums of its bytes, in registers 0 and 1.
func sums(a *arm.Asm, dst arm.R, scale arm.V) {
	const whole, low, high, bias, start arm.R = 3, 4, 5, 6, 7
	a.SumBytes(2, 0)
	a.SumBytes(3, 1)
	a.ToGeneral(low, 2)
	a.ToGeneral(high, 3)
	a.Op("ADDW %v, %v, %v", low, high, whole)
	a.Op("MOVD $%#x, %v", floatMagic, start)
	for i, r := range []arm.R{whole, low, high} {
		a.Op("SUBW %v<<7, %v, %v", r, start, bias)
		a.Op("MOVW %v, %d(%v)", bias, q8Scale+4+4*i, dst)
		a.FromGeneral(4, r)
		a.FMul(4, 4, scale)
		a.StoreS(4, dst, q8Sum+4*i)
	}
	a.Op("MOVW ZR, %d(%v)", q8Sum+12, dst)
}
