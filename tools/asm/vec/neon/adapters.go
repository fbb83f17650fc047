package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// adapters writes the products with the two matrices of a LoRA adapter in bf16.
func adapters(a *arm.Asm) {
	dotBF16(a)
	addPanels(a)
}

// dotBF16 goes over vectors of eight numbers, two at a time, with four sums in flight.
func dotBF16(a *arm.Asm) {
	a.Func("dotBF16Q", "func(x *float32, y *uint16, n int) float32", "dotBF16Q is Σ x[i]·y[i] of n vectors.")
	x, y, n := a.Arg("x", 0), a.Arg("y", 1), a.Arg("n", counter)
	const sums = 4
	for i := range sums {
		a.Zero(arm.V(i))
	}
	block := func(label string, vectors int) {
		groups(a, label, n, vectors, func() {
			for i := range vectors {
				a.LoadQ(y, 16*i, 24)
				a.FromBF16(25, 24)
				a.FromBF16High(26, 24)
				a.LoadPair(x, 32*i, 16, 17)
				a.FMla(arm.V(2*i), 16, 25)
				a.FMla(arm.V(2*i+1), 17, 26)
			}
			a.Advance(x, 32*vectors)
			a.Advance(y, 16*vectors)
		})
	}
	block("two", 2)
	block("one", 1)
	returnSums(a, sums)
}

// panelColumns is vec.PanelColumns.
const panelColumns = 16

// addPanels keeps a panel's results in registers while it goes over the ranks, whose numbers lie one behind the other.
func addPanels(a *arm.Asm) {
	a.Func("addPanelsQ", "func(y *float32, b *uint16, h *float32, rank, n int)", "addPanelsQ is y[i] += Σ h[r]·b[i / 16][r][i % 16], of n panels of 16.")
	y, b, h, rank, n := a.Arg("y", 0), a.Arg("b", 1), a.Arg("h", 2), a.Arg("rank", 3), a.Arg("n", counter)
	const nextH, left arm.R = 4, 5
	a.Label("panel")
	for i := 0; i < panelColumns/4; i += 2 {
		a.LoadPair(y, 16*i, arm.V(i), arm.V(i+1))
	}
	a.Mov(h, nextH)
	a.Mov(rank, left)
	a.Label("rank")
	a.LoadRepeat(nextH, 16)
	a.LoadPair(b, 0, 17, 18)
	for i := range 2 {
		a.FromBF16(19, arm.V(17+i))
		a.FromBF16High(20, arm.V(17+i))
		a.FMla(arm.V(2*i), 19, 16)
		a.FMla(arm.V(2*i+1), 20, 16)
	}
	a.Advance(b, 2*panelColumns)
	a.Advance(nextH, 4)
	a.Loop(left, "rank")
	for i := 0; i < panelColumns/4; i += 2 {
		a.StorePair(arm.V(i), arm.V(i+1), y, 16*i)
	}
	a.Advance(y, 4*panelColumns)
	a.Loop(n, "panel")
	a.Ret()
}
