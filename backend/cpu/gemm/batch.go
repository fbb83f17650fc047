package gemm

// A batchFunc adds the products of any number of rows of activation lines, stride bytes apart, with 32 rows of weights to
// sums, [rows][32]: codes at w, expanded scales at scale, and minima at mins where the format has them, which is nil
// otherwise. Meanwhile it reads memory ahead: every batchRows rows fetch from ahead on, which then moves by step bytes.
type batchFunc func(sums *float32, rows int, w *byte, scale, mins *float32, act *byte, stride, blocks int, ahead uintptr, step int)

// batchRows is how many rows of activations a batch kernel has in hand at a time, and leastBatch from how many rows on it
// is used: fewer fit into one tile of a dot kernel.
const (
	batchRows  = 4
	leastBatch = 7
)

// batched multiplies packed weights with a batch of lines, whose codes are unpacked once for all rows. The sums of a unit
// lie together while it is in hand: rows of out lie pages apart, where they would evict each other from the first-level cache.
func (p *product) batched(pack *packing, batch batchFunc, reading *Reading) {
	for unit := p.from / Granule; unit*Granule < p.to; unit++ {
		p.startSums(unit)
		for k := 0; k < p.w.Cols; k += panelK {
			p.batchChunk(pack, batch, unit, k, min(panelK, p.w.Cols-k), reading)
		}
		p.eachSum(unit, func(sums, out []float32) { copy(out, sums) })
	}
}

// batchChunk multiplies k in [k, k+n) of one unit of 32 rows with all rows of activations.
func (p *product) batchChunk(pack *packing, batch batchFunc, unit, k, n int, reading *Reading) {
	rows, idle := p.actTo-p.actFrom, address(&p.s.panel[0])
	c := p.ready(pack, unit, k, n, idle, false)
	bytes := n/p.w.Format.Block()*pack.bytes + c.blocks*pack.form.blockBytes()
	ahead, step := reading.take(bytes, idle), 0
	if ahead != idle {
		turns := c.blocks * (rows / batchRows)
		if pack.form.sub16() {
			turns *= 2
		}
		step = (bytes + turns - 1) / turns
	}
	batch(&p.s.sums[0], rows, c.codes, c.scales, c.mins, p.acts.at(p.actFrom, k/32*lineBytes), p.acts.stride, c.blocks, ahead, step)
}

// startSums sets a unit's sums to zero, or to what out holds.
func (p *product) startSums(unit int) {
	if p.fresh {
		clear(p.s.sums[:(p.actTo-p.actFrom)*Granule])
		return
	}
	p.eachSum(unit, func(sums, out []float32) { copy(sums, out) })
}

// eachSum goes through the rows of a unit's sums and of the part of out they are for.
func (p *product) eachSum(unit int, do func(sums, out []float32)) {
	n := unit * Granule
	for row := p.actFrom; row < p.actTo; row++ {
		do(p.s.sums[(row-p.actFrom)*Granule:][:Granule], p.out[row*p.ld+n:row*p.ld+min(n+Granule, p.to)])
	}
}
