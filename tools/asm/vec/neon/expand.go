package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// expansions write the decoding of rows whose codes stand for floats to float32, with the roundings of package quant.
func expansions(a *arm.Asm) {
	expandE4M3(a, "expandFP8Q", "func(dst *float32, src *byte, n int, d float32) (ret uint64)", 0)
	expandE4M3(a, "expandFP8BlockQ", "func(dst *float32, src *byte, n int) (ret uint64)", 128)
	expandInt8(a)
	expandUint8(a)
	expandCodebook(a)
	expandNVFP4(a)
}

// steps writes a function that takes n steps over src, of some bytes each, and writes some numbers to dst.
func steps(a *arm.Asm, name, signature, doc string, bytes, numbers int, start func(), body func(dst, src arm.R)) {
	a.Func(name, signature, name+" "+doc)
	dst, src, n := a.Arg("dst", 0), a.Arg("src", 1), a.Arg("n", counter)
	start()
	a.Label("loop")
	body(dst, src)
	a.Advance(dst, 4*numbers)
	a.Advance(src, bytes)
	a.Loop(n, "loop")
}

// expandE4M3 writes steps of 64 numbers under a scale that is an argument, or blocks that begin with theirs. A code moved to the place of half
// floats' exponents is a half float of a 256th, those below the normal ones too; but NaN is not: whether there was any is the result.
func expandE4M3(a *arm.Asm, name, signature string, block int) {
	bytes, numbers, head, doc := 64, 64, 0, "expands n steps of 64 e4m3 numbers; the result is not 0 if any is NaN."
	if block > 0 {
		bytes, numbers, head, doc = block+4, block, 4, "expands n blocks of a scale and 128 e4m3 numbers; the result is not 0 if any is NaN."
	}
	const scale, by, mask, magnitude, nan = 16, 17, 18, 19, 20
	steps(a, name, signature, doc, bytes, numbers, func() {
		a.Load(a.Words(0xbf80bf80), mask)
		a.Load(a.Floats(256), by)
		a.Load(a.Bytes(0x7f), magnitude)
		a.Zero(nan)
		if block == 0 {
			a.ArgFloat("d", scale)
			a.FMul(scale, scale, by)
		}
	}, func(dst, src arm.R) {
		if block > 0 {
			a.LoadRepeat(src, scale)
			a.FMul(scale, scale, by)
		}
		for at := 0; at < numbers; at += 16 {
			a.LoadQ(src, head+at, 0)
			a.And(1, 0, magnitude)
			a.Equal8(1, 1, magnitude)
			a.Or(nan, nan, 1)
			a.Words8(1, 0)
			a.Words8High(2, 0)
			for i := range 2 {
				half := arm.V(1 + i)
				a.Shift16(half, half, 7)
				a.And(half, half, mask)
				a.FromF16(4, half)
				a.FromF16High(5, half)
				a.FMul(4, 4, scale)
				a.FMul(5, 5, scale)
				a.StorePair(4, 5, dst, 4*at+32*i)
			}
		}
	})
	a.UMaxAcross(nan, nan)
	a.ReturnBits(nan)
}

// expandInt8 writes steps of 16 signed bytes under one scale.
func expandInt8(a *arm.Asm) {
	const scale = 16
	steps(a, "expandInt8Q", "func(dst *float32, src *byte, n int, d float32)", "expands n steps of 64 signed bytes.", 64, 64, func() {
		a.ArgFloat("d", scale)
	}, func(dst, src arm.R) {
		for at := 0; at < 64; at += 16 {
			a.LoadQ(src, at, 0)
			a.Words8(1, 0)
			a.Words8High(2, 0)
			for i := range 2 {
				a.Words16(4, arm.V(1+i))
				a.Words16High(5, arm.V(1+i))
				for v := arm.V(4); v <= 5; v++ {
					a.ToFloat(v, v)
					a.FMul(v, v, scale)
				}
				a.StorePair(4, 5, dst, 4*at+32*i)
			}
		}
	})
	a.Ret()
}

// expandUint8 writes blocks of 32 bytes under a scale and a zero point.
func expandUint8(a *arm.Asm) {
	const scale, zero = 16, 17
	const at = arm.R(4)
	steps(a, "expandUint8Q", "func(dst *float32, src *byte, n int)", "expands n blocks in quant.UINT8.", 36, 32, func() {}, func(dst, src arm.R) {
		a.LoadRepeat16(src, scale)
		a.Add(2, src, at)
		a.LoadRepeat16(at, zero)
		a.FromF16(scale, scale)
		a.FromF16(zero, zero)
		for half := range 2 {
			a.LoadQ(src, 4+16*half, 0)
			a.Unsigned8(1, 0)
			a.Unsigned8High(2, 0)
			for i := range 2 {
				a.Unsigned16(4, arm.V(1+i))
				a.Unsigned16High(5, arm.V(1+i))
				for v := arm.V(4); v <= 5; v++ {
					a.ToFloat(v, v)
					a.FSub(v, v, zero)
					a.FMul(v, v, scale)
				}
				a.StorePair(4, 5, dst, 64*half+32*i)
			}
		}
	})
	a.Ret()
}

// codebook looks codes up in a table of 16 float32, which lies in registers 20 to 23: four bytes for each.
type codebook struct{ *arm.Asm }

const (
	bookTable  arm.V = 20
	bookEach   arm.V = 24 // four times a code in every byte of a word
	bookBytes  arm.V = 25 // and the byte's number
	bookLowest arm.V = 26
)

func (c codebook) load(table arm.R) {
	c.LoadPair(table, 0, bookTable, bookTable+1)
	c.LoadPair(table, 32, bookTable+2, bookTable+3)
	c.Asm.Load(c.Words(0x04040404), bookEach)
	c.Asm.Load(c.Words(0x03020100), bookBytes)
	c.Asm.Load(c.Bytes(15), bookLowest)
}

// store writes the numbers of eight codes, the bytes of the low half of v, times scale; registers 2 to 5 are overwritten.
func (c codebook) store(v, scale arm.V, dst arm.R, at int) {
	c.Unsigned8(2, v)
	c.Unsigned16(4, 2)
	c.Unsigned16High(5, 2)
	for i := arm.V(4); i <= 5; i++ {
		c.Mul32(i, i, bookEach)
		c.Add32(i, i, bookBytes)
		c.LookupFour(i, bookTable, i)
		c.FMul(i, i, scale)
	}
	c.StorePair(4, 5, dst, at)
}

// expandCodebook writes blocks in NF4 and FP4: twice 32 numbers of four bits, the first 16 of them in the low halves of bytes.
func expandCodebook(a *arm.Asm) {
	const scale, low, high = 16, 0, 1
	book := codebook{a}
	steps(a, "expandCodebookQ", "func(dst *float32, src *byte, n int, table *float32)", "expands n blocks in quant.NF4 or FP4.", 36, 64, func() {
		book.load(a.Arg("table", 3))
	}, func(dst, src arm.R) {
		a.LoadRepeat(src, scale)
		for at := 0; at < 32; at += 8 {
			a.LoadD(src, 4+at, low)
			a.Shift(high, low, -4)
			a.And(low, low, bookLowest)
			book.store(low, scale, dst, 128*(at/16)+4*(at%16))
			book.store(high, scale, dst, 128*(at/16)+4*(at%16)+64)
		}
	})
	a.Ret()
}

// expandNVFP4 writes blocks of a scale in e4m3 and 16 numbers of four bits, the first eight of them in the low halves of bytes.
func expandNVFP4(a *arm.Asm) {
	const scale, row, low, high = 16, 17, 0, 1
	const scales, at = arm.R(4), arm.R(5)
	book := codebook{a}
	steps(a, "expandNVFP4Q", "func(dst *float32, src *byte, n int, table, scales *float32, d float32)",
		"expands n steps of four blocks of quant.NVFP4_ROW: codes by a table of 16 numbers, scales by one of 256 pairs.", 36, 64, func() {
			book.load(a.Arg("table", 3))
			a.Arg("scales", scales)
			a.ArgFloat("d", row)
		}, func(dst, src arm.R) {
			for b := range 4 {
				a.Op("MOVBU %d(%v), %v", 9*b, src, at)
				a.Op("ADD %v<<3, %v, %v", at, scales, at)
				a.LoadRepeat(at, scale)
				a.FMul(scale, scale, row)
				a.LoadD(src, 9*b+1, low)
				a.Shift(high, low, -4)
				a.And(low, low, bookLowest)
				book.store(low, scale, dst, 64*b)
				book.store(high, scale, dst, 64*b+32)
			}
		})
	a.Ret()
}
