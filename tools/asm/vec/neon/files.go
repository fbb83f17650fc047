// Package neon writes the arm64 assembly of package backend/cpu/vec. ASIMD of the baseline is all it uses; a vector of
// the package's functions is eight numbers, two registers.
package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// Files of the package.
var Files = []arm.File{
	{Name: "pause", Build: pause},
	{Name: "rows_neon", Build: rows},
	{Name: "acts_neon", Build: acts},
	{Name: "rotate_neon", Build: rotations},
	{Name: "convert_neon", Build: conversions},
	{Name: "delta_neon", Build: delta},
	{Name: "states_neon", Build: states},
	{Name: "sparse_neon", Build: sparse},
	{Name: "expand_neon", Build: expansions},
	{Name: "adapters_neon", Build: adapters},
}

// pause writes a wait. ISB empties the pipeline, for some tens of cycles; YIELD, which the manual has for this, does
// nothing on cores without hardware threads.
func pause(a *arm.Asm) {
	a.Func("pause", "func(n int)", "pause waits for n ISB, some 10 to 20 ns each.")
	n := a.Arg("n", 0)
	a.Label("loop")
	a.Op("ISB $15")
	a.Loop(n, "loop")
	a.Ret()
}
