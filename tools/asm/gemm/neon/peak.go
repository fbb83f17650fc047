package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// peaks writes loops that do nothing but issue one instruction, so that kernels can be reported as a fraction of what
// the core can do in the same minute, and a loop that only reads.
func peaks(a *arm.Asm) {
	// Enough independent sums to hide any latency on four pipes.
	const sums, x, y = 24, 30, 31
	loop := func(name, doc string, issue func(sum arm.V)) {
		a.Func(name+"Q", "func(n int)", name+"Q "+doc)
		a.Arg("n", count)
		for v := range arm.V(32) {
			a.Zero(v)
		}
		a.Label("loop")
		for v := range arm.V(sums) {
			issue(v)
		}
		a.Loop(count, "loop")
		a.Ret()
	}
	loop("peakFMA", "issues 24 n FMLA.", func(sum arm.V) { a.FMla(sum, x, y) })
	loop("peakMul", "issues 24 n SMLAL.", func(sum arm.V) { a.Mla8(sum, x, y) })
	loop("peakDot", "issues 24 n SDOT.", func(sum arm.V) { a.DotLane(sum, x, y, 0) })
	loop("peakMatMul", "issues 24 n SMMLA.", func(sum arm.V) { a.MatMul8(sum, x, y) })
	loop("peakBF16", "issues 24 n BFMMLA.", func(sum arm.V) { a.MatMulBF16(sum, x, y) })

	a.Func("peakReadQ", "func(p *byte, lines int)", "peakReadQ reads lines × 64 bytes from p, eight lines at a time.")
	const p = 0
	a.Arg("p", p)
	a.Arg("lines", count)
	a.Label("loop")
	for i := range 16 {
		a.LoadPair(p, 32*i, arm.V(2*i), arm.V(2*i+1))
	}
	a.Advance(p, 512)
	a.Down(count, 8)
	a.Branch("BGT", "loop")
	a.Ret()
}
