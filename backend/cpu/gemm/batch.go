package gemm

// A batchFunc adds the products of groups of rows of activation lines, stride bytes apart, with 32 rows of weights to
// sums, [rows][32]: codes at w, expanded scales at scale, and minima at mins where the format has them, which is nil
// otherwise. Blocks of activations are step bytes apart. Meanwhile memory is read ahead: aheadStep bytes for each block, from ahead on.
type batchFunc func(sums *float32, groups uint64, w *byte, scale, mins *float32, act *byte, stride, step, blocks int, ahead uintptr, aheadStep int)

// batchRows is how many rows of activations a batch kernel has in hand at a time, at most, and leastBatch from how many rows on
// it is used: fewer fit into one tile of a dot kernel.
const (
	batchRows  = 6
	leastBatch = 7
)

// batchGroups divides rows evenly among as few groups as there may be: byte i of the result is how many have batchRows - i rows.
func batchGroups(rows int) uint64 {
	count := (rows + batchRows - 1) / batchRows
	size, larger := rows/count, rows%count
	groups := uint64(count-larger) << (8 * (batchRows - size))
	if larger > 0 {
		groups |= uint64(larger) << (8 * (batchRows - size - 1))
	}
	return groups
}

// batched multiplies packed weights with a batch of lines, whose codes are unpacked once for all rows. The sums of a unit
// lie together while it is in hand: rows of out lie pages apart, where they would evict each other from the first-level cache.
func (p *product) batched(pack *packing, batch batchFunc, reading *Reading) {
	for unit := p.from / Granule; unit*Granule < p.to; unit++ {
		clear(p.s.sums[:(p.actTo-p.actFrom)*Granule])
		for k := 0; k < p.w.Cols; k += panelK {
			if k+panelK >= p.w.Cols {
				p.expectSums(unit)
			}
			p.batchChunk(pack, batch, unit, k, min(panelK, p.w.Cols-k), reading)
		}
		p.storeSums(unit)
	}
}

// batchChunk multiplies k in [k, k+n) of one unit of 32 rows with all rows of activations.
func (p *product) batchChunk(pack *packing, batch batchFunc, unit, k, n int, reading *Reading) {
	idle := address(&p.s.panel[0])
	c := p.ready(pack, unit, k, n, idle, false)
	bytes := n/p.w.Format.Block()*pack.bytes + c.blocks*pack.form.blockBytes()
	ahead, aheadStep := reading.take(bytes, idle), 0
	if ahead != idle {
		aheadStep = (bytes + c.blocks - 1) / c.blocks
	}
	act := p.acts.lines(p.actFrom, k)
	batch(&p.s.sums[0], batchGroups(p.actTo-p.actFrom), c.codes, c.scales, c.mins, act.first, act.stride, act.step, c.blocks, ahead, aheadStep)
}

// expectSums calls for the part of out that a unit's sums are for, which is seldom near.
func (p *product) expectSums(unit int) {
	if n := unit * Granule; n+Granule <= p.to {
		p.expectBatch(&p.out[p.actFrom*p.ld+n], 4*p.ld, p.actTo-p.actFrom)
	}
}

// storeSums writes a unit's sums to out.
func (p *product) storeSums(unit int) {
	if n := unit * Granule; n+Granule <= p.to {
		p.storeBatch(&p.out[p.actFrom*p.ld+n], 4*p.ld, &p.s.sums[0], p.actTo-p.actFrom)
		return
	}
	for row := p.actFrom; row < p.actTo; row++ {
		copy(p.out[row*p.ld+unit*Granule:row*p.ld+p.to], p.s.sums[(row-p.actFrom)*Granule:])
	}
}
