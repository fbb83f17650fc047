package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// conversions write the conversions between float32 and the 16-bit types, and from bytes, for n vectors of eight numbers.
func conversions(a *arm.Asm) {
	convert(a, "narrowF16", "func(dst *uint16, src *float32, n int)", 16, 32, func(src, dst arm.R) {
		a.LoadPair(src, 0, 0, 1)
		a.ToF16(2, 0)
		a.ToF16High(2, 1)
		a.StoreQ(2, dst, 0)
	})
	convert(a, "narrowBF16", "func(dst *uint16, src *float32, n int)", 16, 32, func(src, dst arm.R) {
		a.LoadPair(src, 0, 0, 1)
		roundBF16(a, 0)
		roundBF16(a, 1)
		a.TopHalves(2, 0)
		a.TopHalvesHigh(2, 1)
		a.StoreQ(2, dst, 0)
	})
	convert(a, "widenF16", "func(dst *float32, src *uint16, n int)", 32, 16, func(src, dst arm.R) {
		a.LoadQ(src, 0, 0)
		a.FromF16(1, 0)
		a.FromF16High(2, 0)
		a.StorePair(1, 2, dst, 0)
	})
	convert(a, "widenBF16", "func(dst *float32, src *uint16, n int)", 32, 16, func(src, dst arm.R) {
		a.LoadQ(src, 0, 0)
		a.FromBF16(1, 0)
		a.FromBF16High(2, 0)
		a.StorePair(1, 2, dst, 0)
	})
}

// convert loops over vectors, of dstBytes and srcBytes.
func convert(a *arm.Asm, name, signature string, dstBytes, srcBytes int, body func(src, dst arm.R)) {
	a.Func(name+"Q", signature, name+"Q converts n vectors.")
	dst, src, n := a.Arg("dst", 0), a.Arg("src", 1), a.Arg("n", counter)
	a.Label("loop")
	body(src, dst)
	a.Advance(dst, dstBytes)
	a.Advance(src, srcBytes)
	a.Loop(n, "loop")
	a.Ret()
}

// roundBF16 makes the upper halves of v's words the bf16 nearest to v, ties to even; NaN stays NaN.
func roundBF16(a *arm.Asm, v arm.V) {
	const quiet, odd, number = 4, 5, 6
	a.Load(a.Words(1<<22), quiet)
	a.Or(quiet, quiet, v)
	a.Shift32(odd, v, -16)
	a.And(odd, odd, a.Word(1))
	a.Add32(odd, odd, a.Word(0x7fff))
	a.FEqual(number, v, v)
	a.Add32(v, v, odd)
	a.Choose(number, v, quiet)
	a.Copy(v, number)
}
