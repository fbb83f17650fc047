package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// sparse writes the expansion of blocks of 2:4 sparse numbers (quant.BF16_2_4 and F16_2_4) to float32.
func sparse(a *arm.Asm) {
	expandSparse(a, "expandBF16Q", func() {
		a.FromBF16(2, 0)
		a.FromBF16High(3, 0)
	})
	expandSparse(a, "expandF16Q", func() {
		a.FromF16(2, 0)
		a.FromF16High(3, 0)
	})
}

// expandSparse writes n blocks: masks of 64 numbers, and then those that are stored. They are put in their places by a table of the places for
// each mask of eight numbers, [256][16] bytes, and widened from register 0 to 2 and 3.
func expandSparse(a *arm.Asm, name string, widen func()) {
	const block, masks = 72, 8
	a.Func(name, "func(dst *float32, src *byte, n int, table *byte)", name+" expands n blocks of 64 numbers.")
	dst, src, n, table := a.Arg("dst", 0), a.Arg("src", 1), a.Arg("n", counter), a.Arg("table", 3)
	const mask = arm.R(4)
	a.Label("loop")
	for i := range 8 {
		a.Op("MOVBU %d(%v), %v", i, src, mask)
		a.Op("ADD %v<<4, %v, %v", mask, table, mask)
		a.LoadQ(mask, 0, 1)
		a.LoadD(src, masks+8*i, 0)
		a.Lookup(0, 0, 1)
		widen()
		a.StorePair(2, 3, dst, 32*i)
	}
	a.Advance(dst, 4*64)
	a.Advance(src, block)
	a.Loop(n, "loop")
	a.Ret()
}
