package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// states writes the steps of state space layers.
func states(a *arm.Asm) {
	stateSteps(a)
	scanSteps(a)
}

// stateSteps takes four rows of a state at a time, for each of which B and C are loaded, and then the others one by one.
func stateSteps(a *arm.Asm) {
	a.Func("stateStepsQ", "func(h, x, y *float32, rows int, in, read *float32, n int, decay, step, skip float32)",
		"stateStepsQ is h ← decay·h + (step·x) ⊗ in and y = h·read + skip·x, of rows × n numbers.")
	h, x, y, rows, in, read, n := a.Arg("h", 0), a.Arg("x", 1), a.Arg("y", 2), a.Arg("rows", 3), a.Arg("in", 4), a.Arg("read", 5), a.Arg("n", 6)
	const stride, left, b, c, item = arm.R(7), arm.R(8), arm.R(9), arm.R(10), arm.R(15)
	const g, step, skip, bb, cc, row = arm.V(16), arm.V(17), arm.V(18), arm.V(19), arm.V(20), arm.V(21)
	a.ArgFloat("decay", g)
	a.ArgFloat("step", step)
	a.ArgFloat("skip", skip)
	a.Op("LSL $2, %v, %v", n, stride)
	block := func(label string, many int) {
		places := []arm.R{11, 12, 13, 14}[:many]
		a.Mov(x, item)
		for i, p := range places {
			if i == 0 {
				a.Mov(h, p)
			} else {
				a.AddR(stride, places[i-1], p)
			}
			a.Zero(arm.V(i))
			a.LoadRepeat(item, arm.V(4+i))
			a.FMul(arm.V(4+i), arm.V(4+i), step)
			a.Advance(item, 4)
		}
		a.AddR(stride, places[many-1], h)
		a.Mov(in, b)
		a.Mov(read, c)
		body := func(size int, load func(arm.R, int, arm.V), store func(arm.V, arm.R, int)) {
			load(b, 0, bb)
			load(c, 0, cc)
			for i, p := range places {
				load(p, 0, row)
				a.FMul(row, row, g)
				a.FMla(row, bb, arm.V(4+i))
				store(row, p, 0)
				a.FMla(arm.V(i), row, cc)
				a.Advance(p, size)
			}
			a.Advance(b, size)
			a.Advance(c, size)
		}
		overNumbers(a, label, n, left, body)
		for i := range places {
			a.FAddPairs(arm.V(i), arm.V(i), arm.V(i))
			a.FAddPairs(arm.V(i), arm.V(i), arm.V(i))
			a.LoadS(x, 0, row)
			a.FMla(arm.V(i), row, skip)
			a.StoreS(arm.V(i), y, 0)
			a.Advance(x, 4)
			a.Advance(y, 4)
		}
	}
	groups(a, "four", rows, 4, func() { block("four", 4) })
	groups(a, "one", rows, 1, func() { block("one", 1) })
	a.Ret()
}

// overNumbers goes over n numbers four at a time, and over what is left one by one, with zeros in the other lanes; left counts them.
func overNumbers(a *arm.Asm, label string, n, left arm.R, body func(size int, load func(arm.R, int, arm.V), store func(arm.V, arm.R, int))) {
	a.Mov(n, left)
	a.Down(left, 4)
	a.Branch("BLT", label+"Rest")
	a.Label(label + "Vector")
	body(16, a.LoadQ, a.StoreQ)
	a.Down(left, 4)
	a.Branch("BGE", label+"Vector")
	a.Label(label + "Rest")
	a.Advance(left, 4)
	a.IfZero(left, label+"Sums")
	a.Label(label + "Single")
	body(4, a.LoadS, a.StoreS)
	a.Loop(left, label+"Single")
	a.Label(label + "Sums")
}

// scanSteps takes a row at a time.
func scanSteps(a *arm.Asm) {
	a.Func("scanStepsQ", "func(h, rates, steps, by, y *float32, rows int, in, read *float32, n int)",
		"scanStepsQ is h ← exp(steps·rates)·h + by ⊗ in and y = h·read, of rows × n numbers; a row has one of steps and by.")
	h, rates, steps, by, y := a.Arg("h", 0), a.Arg("rates", 1), a.Arg("steps", 2), a.Arg("by", 3), a.Arg("y", 4)
	rows, in, read, n := a.Arg("rows", 5), a.Arg("in", 6), a.Arg("read", 7), a.Arg("n", 8)
	const left, b, c = arm.R(9), arm.R(10), arm.R(11)
	const x, e, t, row, step, more, bb, sum = arm.V(0), arm.V(3), arm.V(4), arm.V(5), arm.V(6), arm.V(7), arm.V(16), arm.V(17)
	a.Label("row")
	a.LoadRepeat(steps, step)
	a.LoadRepeat(by, more)
	a.Zero(sum)
	a.Mov(in, b)
	a.Mov(read, c)
	overNumbers(a, "row", n, left, func(size int, load func(arm.R, int, arm.V), store func(arm.V, arm.R, int)) {
		load(rates, 0, x)
		a.FMul(x, x, step)
		a.Exp(x, e, t)
		load(h, 0, row)
		load(b, 0, bb)
		a.FMul(row, row, e)
		a.FMla(row, bb, more)
		store(row, h, 0)
		load(c, 0, bb)
		a.FMla(sum, bb, row)
		for _, p := range []arm.R{h, rates, b, c} {
			a.Advance(p, size)
		}
	})
	a.FAddPairs(sum, sum, sum)
	a.FAddPairs(sum, sum, sum)
	a.StoreS(sum, y, 0)
	for _, p := range []arm.R{steps, by, y} {
		a.Advance(p, 4)
	}
	a.Loop(rows, "row")
	a.Ret()
}
