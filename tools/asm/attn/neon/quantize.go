package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// round writes the quantization of rows of n floats x·by to 16-bit integers, in place, four at a time: see int8Kernels of package
// attn. Rows so small that the inverse of their step is not finite become zeros.
func round(a *arm.Asm, e engine) {
	a.Func("quantize"+e.suffix, "func(x, by *float32, n, rows int, most float32, scale *float32)", "rounds rows of n products x·by in place.")
	const (
		row, by, left, to, rows, scale, factors, groups arm.R = 0, 1, 2, 3, 4, 5, 6, 7
		product, factor, largest, least, most, unit     arm.V = 0, 2, 3, 4, 5, 6
	)
	a.Arg("x", row)
	a.Arg("by", factors)
	a.Arg("n", groups)
	a.Op("LSR $2, %v, %v", groups, groups)
	a.Arg("rows", rows)
	a.Arg("scale", scale)
	a.ArgFloat("most", most)
	a.Load(a.Floats(0x1p-110), least)
	each := func(label string, do func()) {
		a.Mov(factors, by)
		a.Mov(groups, left)
		a.Label(label)
		a.LoadQ(row, 0, product)
		a.LoadQ(by, 0, factor)
		a.FMul(product, product, factor)
		do()
		a.Advance(row, 16)
		a.Advance(by, 16)
		a.Loop(left, label)
	}
	a.Label("row")
	a.Mov(row, to)
	a.Zero(largest)
	each("largest", func() { // compared as integers, so that a NaN wins and shows in the scale
		a.FAbs(product, product)
		a.UMax32(largest, largest, product)
	})
	a.UMaxAcross(largest, largest)
	a.FDiv(unit, largest, most)
	a.StoreS(unit, scale, 0)
	a.FDiv(unit, most, largest)
	a.FSub(largest, largest, least)
	a.FNegative(largest, largest)
	a.AndNot(unit, unit, largest)
	a.Mov(to, row)
	each("levels", func() {
		a.FMulLane(product, product, unit, 0)
		a.ToInt(product, product)
		a.Narrow32(product, product)
		e.store(a)
		a.StoreD(product, to, 0)
		a.Advance(to, 8)
	})
	a.Advance(scale, 4)
	a.Loop(rows, "row")
	a.Ret()
}
