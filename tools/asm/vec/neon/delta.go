package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// delta writes the delta rule for columns of a state: sixteen of them, which give the multipliers enough sums in flight, and one.
func delta(a *arm.Asm) {
	deltaSteps(a, "deltaWideQ", 4, 16, a.LoadQ, a.StoreQ)
	deltaSteps(a, "deltaNarrowQ", 1, 4, a.LoadS, a.StoreS)
}

// deltaSteps goes through the columns once a token, and once more before the first: while a row is updated for one token, it is multiplied by what
// the next one reads it with. A sum is over the rows in their order, whichever pass computes it. Single numbers come with zeros in the other lanes.
func deltaSteps(a *arm.Asm, name string, vectors, size int, load func(arm.R, int, arm.V), store func(arm.V, arm.R, int)) {
	a.Func(name, "func(s *float32, stride int, c *float32, keys, tokens int, v *float32, vStride int, y *float32, yStride int, rates *float32, n int)",
		name+" is deltaSteps.")
	s, stride, token, keys, tokens := a.Arg("s", 0), a.Arg("stride", 1), a.Arg("c", 2), a.Arg("keys", 3), a.Arg("tokens", 4)
	v, vStride, y, yStride, rates := a.Arg("v", 5), a.Arg("vStride", 6), a.Arg("y", 7), a.Arg("yStride", 8), a.Arg("rates", 9)
	const row, left, r, d, k, q, all = arm.R(10), arm.R(11), arm.R(12), arm.R(13), arm.R(14), arm.R(15), arm.R(16)
	// Registers of vector i: Sᵀq, δ, the sum for δ, a row; and numbers of a token for a row, in every lane.
	sum, del, read, x := func(i int) arm.V { return arm.V(i) }, func(i int) arm.V { return arm.V(4 + i) },
		func(i int) arm.V { return arm.V(16 + i) }, func(i int) arm.V { return arm.V(20 + i) }
	const rr, dd, kk, qq = arm.V(24), arm.V(25), arm.V(26), arm.V(27)
	a.Op("LSL $2, %v, %v", keys, all)
	rows := func(label string, pointers []arm.R, body func()) {
		a.Mov(s, row)
		a.Mov(keys, left)
		a.Label(label)
		body()
		a.AddR(stride, row, row)
		for _, p := range pointers {
			a.Advance(p, 4)
		}
		a.Loop(left, label)
	}

	for i := range vectors {
		a.Zero(read(i))
	}
	a.Mov(token, r)
	rows("first", []arm.R{r}, func() {
		a.LoadRepeat(r, rr)
		for i := range vectors {
			load(row, size*i, x(i))
			a.FMla(read(i), x(i), rr)
		}
	})
	a.Label("token")
	a.LoadRepeat(rates, rr)
	for i := range vectors {
		load(v, size*i, del(i))
		a.FSub(del(i), del(i), read(i))
		a.FMul(del(i), del(i), rr)
		a.Zero(read(i))
		a.Zero(sum(i))
	}
	a.AddR(all, token, d)
	a.AddR(all, d, k)
	a.AddR(all, k, q)
	a.AddR(all, q, r) // the next token's numbers; the last token's own, for nothing
	a.Op("CMP $1, %v", tokens)
	a.Op("CSEL EQ, %v, %v, %v", token, r, r)
	rows("row", []arm.R{r, d, k, q}, func() {
		a.LoadRepeat(d, dd)
		a.LoadRepeat(k, kk)
		a.LoadRepeat(q, qq)
		a.LoadRepeat(r, rr)
		for i := range vectors {
			load(row, size*i, x(i))
			a.FMul(x(i), x(i), dd)
			a.FMla(x(i), del(i), kk)
			store(x(i), row, size*i)
			a.FMla(sum(i), x(i), qq)
			a.FMla(read(i), x(i), rr)
		}
	})
	for i := range vectors {
		store(sum(i), y, size*i)
	}
	a.AddR(vStride, v, v)
	a.AddR(yStride, y, y)
	a.Op("ADD %v<<2, %v, %v", all, token, token)
	a.Advance(rates, 4)
	a.Loop(tokens, "token")
	a.Ret()
}
