package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// softmax writes the step of the online softmax: for each of n rows of 64 scores, the running maximum is updated,
// they become P = 2^(score - max), and the running sum and the rescale factor of what was accumulated before follow. A row
// stays in registers 0 to 15.
func softmax(a *arm.Asm) {
	a.Func("softmaxQ", "func(scores, rowMax, rowSum, rescale *float32, n int)", "softmaxQ brings n rows of 64 scores into the running maximum and rowSum.")
	scores, rowMax, rowSum, rescale, n := a.Arg("scores", 0), a.Arg("rowMax", 1), a.Arg("rowSum", 2), a.Arg("rescale", 3), a.Arg("n", 4)
	const vectors, high, before, total, old, power = 16, 16, 17, 18, 19, 20
	a.Label("row")
	for i := arm.V(0); i < vectors; i += 2 {
		a.LoadPair(scores, 16*int(i), i, i+1)
	}
	for i := arm.V(0); i < 4; i++ {
		a.FMax(high+i, i, 4+i)
		a.FMax(high+i, high+i, 8+i)
		a.FMax(high+i, high+i, 12+i)
	}
	a.FMax(high, high, high+1)
	a.FMax(high+2, high+2, high+3)
	a.FMax(high, high, high+2)
	a.FMaxAcross(high, high)
	a.LoadS(rowMax, 0, before)
	a.FMax(high, high, before)
	a.StoreS(high, rowMax, 0)
	a.FSub(before, before, high)
	a.DupLane(high, high, 0)
	a.Zero(total)
	for i := arm.V(0); i < vectors; i++ {
		p := power + i%4 // distinct, for cores without register renaming
		a.FSub(i, i, high)
		a.Exp2(i, p, 24+i%4)
		a.StoreQ(p, scores, 16*int(i))
		a.FAdd(total, total, p)
	}
	a.Exp2(before, power, 24)
	a.StoreS(power, rescale, 0)
	a.FAddPairs(total, total, total)
	a.FAddPairs(total, total, total)
	a.LoadS(rowSum, 0, old)
	a.FMla(total, old, power)
	a.StoreS(total, rowSum, 0)
	a.Advance(scores, 256)
	for _, r := range []arm.R{rowMax, rowSum, rescale} {
		a.Advance(r, 4)
	}
	a.Loop(n, "row")
	a.Ret()
}
