package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"github.com/ridge-llm/ridge/tools/asm/emit"
)

// The Q8 block of 32 activations; see gemm's ActFormat.
const (
	q8BlockBytes = 64
	q8Scale      = 32 // float32
	q8Bias       = 36 // int32, bits of 1.5 · 2²³ - 128 Σ of the block
	q8Bias16     = 40 // two int32, likewise for either half
	q8Sum        = 48 // float32, scale × Σ of the block, then of either half
)

// dot is the micro-kernel of one code layout for a fixed count of activation rows × 32 rows of weights (16 with AVX-VNNI; it is
// then called twice; see dot256 for machines without VNNI). All sums stay in registers: an integer sum and a float sum for each vector of each row.
type dot struct {
	*codes
	rows    int // of activations
	ints    int // first register of the integer sums
	floats  int // first register of the float sums
	weights int // two registers of code bytes
	tmp     int
	cast    int
	act     [6]Mem
	ahead   [2]GPPhysical // prefetch addresses
}

// dots writes every layout's kernels for 1 to most rows, for instruction sets with VNNI.
func dots(w emit.Width, most int) func(*emit.Asm) {
	return func(a *emit.Asm) {
		w.Asm = a
		consts := writeConstants(w)
		for _, f := range layouts {
			for rows := 1; rows <= most; rows++ {
				d := dot{rows: rows}
				d.start(w, f, consts)
			}
			if f.planes < 8 {
				unpack(w, f, consts)
			}
		}
	}
}

func (d *dot) start(w emit.Width, f layout, consts constants) {
	name := fmt.Sprintf("dot%sx%d%s", f.name, d.rows, w.Suffix())
	w.Func(name, "func(out *float32, ld int, fresh bool, w *byte, scale *float32, act *byte, stride int, blocks int, ahead uintptr, ahead2 uintptr, mins *float32)",
		fmt.Sprintf("%s adds the products of %d rows of activations with %d rows of %s weights to out, or sets out to them.", name, d.rows, w.Bytes/2, f.name))
	d.ints, d.floats, d.weights, d.tmp, d.cast = 0, 12, 24, 26, 27
	if !w.AVX512() {
		d.floats, d.weights, d.tmp, d.cast = 6, 12, 14, 15
	}
	out, ld := w.Arg("out", RDI), w.Arg("ld", RSI)
	weights, scale := w.Arg("w", RAX), w.Arg("scale", RBX)
	act, stride, blocks := w.Arg("act", RDX), w.Arg("stride", RCX), w.Arg("blocks", R8)
	ahead := [2]GPPhysical{w.Arg("ahead", R11), w.Arg("ahead2", R12)}
	d.codes = consts.codes(w, f, 28, registers(w))
	d.act = rowAddresses(w, d.rows, act, stride)
	startSums(w, d.rows, out, ld, d.float)
	mins := w.Arg("mins", R13)
	w.Label("loop")
	d.ahead = ahead
	d.block(weights, scale)
	d.minima(mins)
	for _, from := range ahead {
		w.Advance(from, 64*aheadCodes(f, d.rows))
	}
	w.Advance(weights, 128*f.planes)
	w.Advance(scale, d.scaleBytes())
	w.Advance(act, q8BlockBytes)
	if d.rows > 5 {
		w.Advance(sixthRow, q8BlockBytes)
	}
	w.SUBQ(Imm(1), blocks)
	w.JNZ(LabelRef("loop"))
	storeSums(w, d.rows, out, ld, d.float)
	w.VZEROUPPER()
	w.RET()
}

// nearBytes is how far ahead of the codes in use they are prefetched from the L2 cache, into which they were prefetched before, to
// L1.
const nearBytes = 1024

// fetch prefetches for group j: a block's share is spread over its groups, since a burst would delay the loads behind it, and
// so would loads that wait for the L2 cache. A call uses so many bytes of each plane, 128 or, where it is for one half of the rows of weights, 64.
func fetch(c *codes, rows, bytes int, weights GPPhysical, ahead [2]GPPhysical, j int) {
	near, step := 2*c.planes, 64
	if bytes == 64 {
		near, step = c.planes, 128
	}
	for i := j * near / 8; i < (j+1)*near/8; i++ {
		c.PREFETCHT0(emit.At(weights, nearBytes+step*i))
	}
	lines := aheadCodes(c.layout, rows)
	for i := j * 2 * lines / 8; i < (j+1)*2*lines/8; i++ {
		c.PREFETCHT1(emit.At(ahead[i/lines], 64*(i%lines)))
	}
}

// aheadCodes is how many cache lines each block prefetches from either of two addresses; gemm's prefetchLines is the same function. For few
// rows both together are all that a block takes in memory; the tiles of many rows share the work.
func aheadCodes(f layout, rows int) int {
	if f.planes == 8 && rows > 4 {
		return 2
	}
	return f.planes
}

// scaleBytes is the size of one block's expanded scales: 32 float32, or 64 where scales stand for 16 weights.
func (d *dot) scaleBytes() int {
	if d.sub16 {
		return 256
	}
	return 128
}

// int is the integer sum of vector v of row a. Few rows keep two, so that one is always free of a pending product.
func (d *dot) int(a, v int) VecPhysical { return d.Reg(d.ints + 2*a + v) }
func (d *dot) second(a, v int) VecPhysical {
	return d.Reg(d.ints + 2*d.rows + 2*a + v)
}
func (d *dot) twoSums() bool { return d.AVX512() && d.rows <= 3 }

func (d *dot) float(a, v int) VecPhysical { return d.Reg(d.floats + 2*a + v) }

// block is 32 k: one integer sum and one scaling, or two where scales stand for 16 weights.
func (d *dot) block(weights, scale GPPhysical) {
	subs := 1
	if d.sub16 {
		subs = 2
	}
	for sub := range subs {
		d.bias(sub)
		for j := sub * 8 / subs; j < (sub+1)*8/subs; j++ {
			d.products(weights, j)
		}
		d.scaled(scale, sub)
	}
}

// minima adds minimum × scale × sum of the activations, where there are minima.
func (d *dot) minima(mins GPPhysical) {
	d.TESTQ(mins, mins)
	d.JZ(LabelRef("next"))
	subs, at := 1, q8Sum
	if d.sub16 {
		subs, at = 2, q8Sum+4
	}
	for sub := range subs {
		for v := range 2 {
			d.VMOVUPS(emit.At(mins, 128*sub+v*d.Bytes), d.Reg(d.weights+v))
		}
		for a := range d.rows {
			d.VBROADCASTSS(d.act[a].Offset(at+4*sub), d.Reg(d.cast))
			for v := range 2 {
				d.VFMADD231PS(d.Reg(d.cast), d.Reg(d.weights+v), d.float(a, v))
			}
		}
	}
	d.Advance(mins, 128*subs)
	d.Label("next")
}

// bias starts the integer sums at the correction for the weights' offset of 128, plus the bits of the float 1.5 · 2²³: the
// sum, read as a float, is then 1.5 · 2²³ more than its value, and needs no conversion.
func (d *dot) bias(sub int) {
	at := q8Bias
	if d.sub16 {
		at = q8Bias16 + 4*sub
	}
	for a := range d.rows {
		for v := range 2 {
			d.VPBROADCASTD(d.act[a].Offset(at), d.int(a, v))
			if d.twoSums() {
				d.Zero(d.second(a, v))
			}
		}
	}
}

// products adds group j of every row.
func (d *dot) products(weights GPPhysical, j int) {
	fetch(d.codes, d.rows, 2*d.Bytes, weights, d.ahead, j)
	for v := range 2 {
		d.group(d.codes, j, emit.At(weights, v*d.Bytes), d.Reg(d.weights+v), d.Reg(d.tmp))
	}
	for a := range d.rows {
		cast := d.Reg(d.cast)
		d.VPBROADCASTD(d.act[a].Offset(4*j), cast)
		for v := range 2 {
			if d.twoSums() && j%2 == 1 {
				d.Dot(cast, d.Reg(d.weights+v), d.second(a, v))
			} else {
				d.Dot(cast, d.Reg(d.weights+v), d.int(a, v))
			}
		}
	}
}

// scaled adds the integer sums, times weight scale and activation scale, to the float sums. Subtracting 1.5 · 2²³ times the
// weight scale is exact: scales have at most 19 significant bits (a half float times a sub-scale), the factor
// has two, and the multiply-subtract rounds once.
func (d *dot) scaled(scale GPPhysical, sub int) {
	weight := [2]VecPhysical{d.Reg(d.weights), d.Reg(d.weights + 1)}
	offset := [2]VecPhysical{d.Reg(d.tmp), d.Reg(d.tmp)}
	ready := func(v int) {
		d.VMOVUPS(emit.At(scale, sub*128+v*d.Bytes), weight[v])
		d.VMULPS(d.magic, weight[v], offset[v])
	}
	add := func(a, v int) {
		if d.twoSums() {
			d.VPADDD(d.second(a, v), d.int(a, v), d.int(a, v))
		}
		d.VFMSUB132PS(weight[v], offset[v], d.int(a, v))
		d.VFMADD231PS(d.Reg(d.cast), d.int(a, v), d.float(a, v))
	}
	if !d.AVX512() {
		for v := range 2 {
			ready(v)
			for a := range d.rows {
				d.VBROADCASTSS(d.act[a].Offset(q8Scale), d.Reg(d.cast))
				add(a, v)
			}
		}
		return
	}
	// With a register to spare, a broadcast serves both vectors.
	offset[1] = Z31
	ready(0)
	ready(1)
	for a := range d.rows {
		d.VBROADCASTSS(d.act[a].Offset(q8Scale), d.Reg(d.cast))
		add(a, 0)
		add(a, 1)
	}
}
