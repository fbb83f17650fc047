package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// dot256 is dot for AVX2 without VNNI: it multiplies codes of up to six bits as the low layouts have them, unpacked in registers.
// With one row of activations it multiplies 32 rows of weights; with more it is called for either half of them.
type dot256 struct{ block256 }

// dots256 writes every layout's kernels for 1 to tileRows rows.
func dots256(w emit.Width) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		consts := writeConstants(w)
		for _, f := range layouts {
			for rows := 1; rows <= tileRows; rows++ {
				low, packed := lowOf(f), f
				if low != nil {
					packed = low.shifted(f)
				}
				d := dot256{newBlock256(w, packed, low, consts, rows)}
				d.inPlace = true
				if rows == 1 {
					d.vectors = 4
				}
				d.kernel(consts)
			}
		}
	}
}

// place divides the registers below 12 among the sums, and returns the first that is left. Masks in registers are worth more than float sums,
// which are used once for every block.
func (d *dot256) place() int {
	const end = 12
	sums := d.vectors * d.rows
	next, widens := sums, d.low != nil && d.low.widen < 8/d.subs()
	if next+sums <= end && !(widens && d.vectors > 2) {
		d.floats = next
		next += sums
	}
	if widens && next+sums <= end {
		d.wide = next
		next += sums
	}
	return next
}

// inMemory reports whether any sum is.
func (d *dot256) inMemory() bool {
	return d.floats == 0 || d.low != nil && d.low.widen < 8/d.subs() && d.wide == 0
}

func (d *dot256) kernel(consts constants) {
	name := fmt.Sprintf("dot%sx%d%s", d.name, d.rows, d.Suffix())
	d.Func(name, "func(out *float32, ld int, fresh bool, w *byte, scale *float32, act *byte, stride int, blocks int, ahead uintptr, ahead2 uintptr, mins *float32)",
		fmt.Sprintf("%s adds the products of %d rows of activations with %d rows of %s weights to out, or sets out to them.", name, d.rows, 8*d.vectors, d.name))
	first := d.place()
	d.codes = consts.codes(d.Width, d.layout, first, 12)
	var frame Mem
	if d.inMemory() {
		d.Attributes(0) // its frame is too large for NOSPLIT
		frame = d.AllocLocal(2*floatBytes + 64)
	}
	out, ld := d.Arg("out", RDI), d.Arg("ld", RSI)
	weights, scale := d.Arg("w", RAX), d.Arg("scale", RBX)
	act, stride, blocks := d.Arg("act", RDX), d.Arg("stride", RCX), d.Arg("blocks", R8)
	ahead := [2]GPPhysical{d.Arg("ahead", R11), d.Arg("ahead2", R12)}
	d.act = rowAddresses(d.Width, d.rows, act, stride)
	d.load(frame, out, ld)
	d.Arg("mins", R13)
	d.Label("loop")
	d.products(weights, scale, func(j int) { fetch(d.codes, d.rows, d.vectors*d.Bytes, weights, ahead, j) })
	d.minima()
	for _, from := range ahead {
		d.Advance(from, 64*aheadCodes(d.layout, d.rows))
	}
	d.Advance(weights, 128*d.planes)
	d.Advance(scale, 128*d.subs())
	d.Advance(act, q8BlockBytes)
	if d.rows > 5 {
		d.Advance(sixthRow, q8BlockBytes)
	}
	d.SUBQ(Imm(1), blocks)
	d.JNZ(LabelRef("loop"))
	d.store(out, ld)
	d.VZEROUPPER()
	d.RET()
}

// minima adds minimum × scale × sum of the activations, where there are minima.
func (d *dot256) minima() {
	d.TESTQ(R13, R13)
	d.JZ(LabelRef("next"))
	for v := range d.vectors {
		for i := range d.subs() {
			d.VMOVUPS(emit.At(R13, 128*i+v*d.Bytes), d.Reg(12+i))
		}
		for r := range d.rows {
			sum, near := d.held(r, v).(VecPhysical)
			if !near {
				sum = Y15
				d.VMOVUPS(d.held(r, v), sum)
			}
			d.minimum(r, sum)
			if !near {
				d.VMOVUPS(sum, d.held(r, v))
			}
		}
	}
	d.Advance(R13, 128*d.subs())
	d.Label("next")
}
