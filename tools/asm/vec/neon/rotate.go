package neon

import "github.com/ridge-llm/ridge/tools/asm/arm"

// rotations write both pairings of RoPE for n whole vectors of eight numbers; angles are cosine and sine in rotatePair.
func rotations(a *arm.Asm) {
	rotateHalf(a)
	rotateAdjacent(a)
}

// rotatePair makes registers p and q p·cos - q·sin and q·cos + p·sin.
func rotatePair(a *arm.Asm, p, q, cos, sin arm.V) {
	a.FMul(6, p, cos)
	a.FMls(6, q, sin)
	a.FMul(7, q, cos)
	a.FMla(7, p, sin)
}

// rotateHalf rotates the pairs (x[i], x[i+half]).
func rotateHalf(a *arm.Asm) {
	a.Func("rotateHalfQ", "func(y, x, angles *float32, half, n int)", "rotateHalfQ rotates n vectors of pairs (x[i], x[i+half]).")
	y, x, angles, half, n := a.Arg("y", 0), a.Arg("x", 1), a.Arg("angles", 2), a.Arg("half", 3), a.Arg("n", counter)
	const farY, farX arm.R = 4, 5
	a.Op("ADD %v<<2, %v, %v", half, y, farY)
	a.Op("ADD %v<<2, %v, %v", half, x, farX)
	a.Label("loop")
	for range 2 {
		a.LoadQ(x, 0, 0)
		a.LoadQ(farX, 0, 1)
		a.LoadTwo(angles, 2)
		rotatePair(a, 0, 1, 2, 3)
		a.StoreQ(6, y, 0)
		a.StoreQ(7, farY, 0)
		for _, r := range []arm.R{x, farX, y, farY} {
			a.Advance(r, 16)
		}
		a.Advance(angles, 32)
	}
	a.Loop(n, "loop")
	a.Ret()
}

// rotateAdjacent rotates the pairs (x[2i], x[2i+1]).
func rotateAdjacent(a *arm.Asm) {
	a.Func("rotateAdjacentQ", "func(y, x, angles *float32, n int)", "rotateAdjacentQ rotates the pairs (x[2i], x[2i+1]) of n vectors.")
	y, x, angles, n := a.Arg("y", 0), a.Arg("x", 1), a.Arg("angles", 2), a.Arg("n", counter)
	a.Label("loop")
	a.LoadTwo(x, 0)
	a.LoadTwo(angles, 2)
	rotatePair(a, 0, 1, 2, 3)
	a.StoreTwo(6, y)
	for _, r := range []arm.R{x, angles, y} {
		a.Advance(r, 32)
	}
	a.Loop(n, "loop")
	a.Ret()
}
