package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// An arrangement stores the eight groups of a vector of weights, registers 0 to 7, at the pointer, and says how far apart
// vectors are.
type arrangement func(a *arm.Asm, panel arm.R) int

// planes is the order of unpacked codes in memory: a plane of 128 bytes for each group.
func planes(a *arm.Asm, panel arm.R) int {
	for j := range 8 {
		a.StoreQ(arm.V(j), panel, 128*j)
	}
	return 16
}

// rowPairs is what SMMLA reads: for each eight k, pairs of rows, eight bytes each.
func rowPairs(a *arm.Asm, panel arm.R) int {
	for i := range 4 {
		x, y := arm.V(2*i), arm.V(2*i+1)
		a.Zip(4, 8, x, y)
		a.ZipHigh(4, 9, x, y)
		a.StorePair(8, 9, panel, 256*i)
	}
	return 32
}

// unpack writes the kernel that turns a layout into signed bytes: worth its stores once several tiles of activations
// follow. A block of 32 rows is 1,024 bytes either way.
func unpack(a *arm.Asm, f layout, suffix string, arrange arrangement) {
	name := "unpack" + f.name + suffix
	a.Func(name, "func(panel *byte, w *byte, blocks int)", name+" turns blocks of "+f.name+" codes of 32 rows into signed bytes.")
	const panel, vector arm.R = 0, 1
	c := f.codes(a, weights, 31)
	a.Arg("panel", panel)
	a.Arg("w", weights)
	a.Arg("blocks", count)
	a.Label("block")
	a.Set(8, vector)
	a.Label("vector")
	for j := range 8 {
		c.code(j, 0, arm.V(j), 16)
	}
	step := arrange(a, panel)
	a.Advance(panel, step)
	a.Advance(weights, 16)
	a.Loop(vector, "vector")
	a.Advance(panel, 1024-8*step)
	a.Advance(weights, 128*(f.planes-1))
	a.Loop(count, "block")
	a.Ret()
}
