package neon

import (
	"fmt"

	"github.com/ridge-llm/ridge/tools/asm/arm"
)

// The Q8 block of 32 activations; see gemm's ActFormat.
const (
	q8BlockBytes = 64
	q8Scale      = 32 // float32
	q8Sum        = 48 // float32, scale × Σ of the block, then of either half
	floatMagic   = 0x4b400000
)

// General registers of the dot kernels; those of rows of activations are actRow and the five after it.
const (
	out arm.R = iota
	ld
	weights
	scale
	mins
	count
	column // bytes of out, scales and planes from the first of 32 rows of weights
	temporary
	actRow
)

// magic is the vector register that integer sums start from: the bits of 1.5·2²³, so that they are floats larger by
// as much. Constants of layouts are in the registers below.
const magic arm.V = 31

// dot is the micro-kernel of one code layout for a fixed count of activation rows × 32 rows of weights, 4 × vectors of them at a
// time. All sums stay in registers: an integer sum and a float sum for each.
type dot struct {
	*codes
	rows, vectors int
	engine
}

// An engine is how sums are assigned to registers and which instructions multiply.
type engine interface {
	load()            // loads the float sums from out, and may advance out
	clear()           // clears them
	store()           // stores them to out
	begin()           // starts an integer sum
	products(sub int) // of groups 0 to 3 (sub 0), 4 to 7 (sub 1), or all (whole)
	scaled(sub int)   // float sums += integer sums × scales
	minima(sub int)   // float sums += minima × the sums of activations
	width() int       // 16 bytes that a vector of weights takes in a plane
}

// whole is all groups of a block, as opposed to a half of them.
const whole = -1

// function starts a kernel.
func function(a *arm.Asm, f layout, rows, vectors int, suffix string) *dot {
	name := fmt.Sprintf("dot%sx%d%s", f.name, rows, suffix)
	a.Func(name, "func(out *float32, ld int, fresh bool, w *byte, scale *float32, act *byte, stride int, blocks int, ahead uintptr, ahead2 uintptr, mins *float32)",
		fmt.Sprintf("%s adds the products of %d rows of activations with 32 rows of %s weights to out, or sets out to them.", name, rows, f.name))
	return &dot{codes: f.codes(a, weights, magic-1), rows: rows, vectors: vectors}
}

// write writes the kernel for an engine. Nothing is prefetched: cores that have these instructions follow such
// follow such streams.
func (d *dot) write(e engine) {
	d.engine = e
	d.Set(0, column)
	d.Label("group")
	d.pointers()
	d.Arg("fresh", temporary)
	d.IfZero(temporary, "held")
	d.clear()
	d.Branch("B", "loop")
	d.Label("held")
	d.engine.load()
	d.Label("loop")
	subs := []int{whole}
	if d.sub16 {
		subs = []int{0, 1}
	}
	for _, sub := range subs {
		d.begin()
		d.products(sub)
		d.scaled(sub)
	}
	d.IfZero(mins, "next")
	for _, sub := range subs {
		d.minima(sub)
	}
	d.Advance(mins, 128*len(subs))
	d.Label("next")
	d.Advance(weights, 128*d.planes)
	d.Advance(scale, 128*len(subs))
	for a := range d.rows {
		d.Advance(actRow+arm.R(a), q8BlockBytes)
	}
	d.Loop(count, "loop")
	d.Arg("out", out)
	d.AddR(column, out, out)
	d.store()
	d.Advance(column, 16*d.vectors)
	d.Op("CMP $128, %v", column)
	d.Branch("BLT", "group")
	d.Ret()
}

// pointers sets the general registers for the current rows of weights.
func (d *dot) pointers() {
	d.Arg("out", out)
	d.Arg("ld", ld)
	d.Arg("w", weights)
	d.Arg("scale", scale)
	d.Arg("blocks", count)
	d.Arg("mins", mins)
	d.AddR(column, out, out)
	if d.rows == panelRows {
		nextOut(d.Asm)
	}
	for range d.width() {
		d.AddR(column, weights, weights)
	}
	d.AddR(column, scale, scale)
	d.IfZero(mins, "pointers")
	d.AddR(column, mins, mins)
	d.Label("pointers")
	d.Arg("act", actRow)
	d.Arg("stride", temporary)
	for a := 1; a < d.rows; a++ {
		d.AddR(temporary, actRow+arm.R(a-1), actRow+arm.R(a))
	}
}

// panelRows is how many rows of activations the tiles of many rows have.
const panelRows = 6

// nextOut prefetches, for writing, the part of out that the next such tile will need: its rows lie pages apart.
func nextOut(a *arm.Asm) {
	a.Op("ADD %v<<2, %v, %v", ld, out, temporary)
	a.Op("ADD %v<<1, %v, %v", ld, temporary, temporary)
	for range panelRows {
		a.PrefetchW(temporary)
		a.AddR(ld, temporary, temporary)
	}
}

// sumAt is the offset of scale × sum in a Q8 block.
func sumAt(sub int) int {
	if sub == whole {
		return q8Sum
	}
	return q8Sum + 4 + 4*sub
}

// scalesAt is where expanded scales or minima of vector v are.
func scalesAt(sub, v int) int { return 128*max(sub, 0) + 16*v }
