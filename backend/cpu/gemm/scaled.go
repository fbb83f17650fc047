package gemm

// Without VNNI, grouped matmuls keep weights' codes of few bits as they are, and blocks' scales become whole multiples of a group's: see tools/asm/gemm's scaledGroups.

// A scaledFunc is a tileFunc for grouped activations and 16 rows of such weights, with the multiples of group scales that their scales are, and what
// they are off by.
type scaledFunc func(out *float32, ld int, fresh bool, w *byte, scale, off, groupScale *float32, act *byte, blocks, groups, tiles, header int, codes, codesEnd, scales, scalesEnd uintptr)

// scaledKernels are those of a layout for tiles of 2, 4 and 6 rows of activations; those of fewer than mr are for the last tile.
type scaledKernels [mr / 2]scaledFunc

// aheadCodes and aheadScales are the bytes that a tile's kernel prefetches in every block.
const aheadCodes, aheadScales = 128, 64

// scaledKBlock multiplies k in [k, k+n) of one panel with all rows, half of its rows of weights after the other: unpacked, half a panel leaves room in the L1 cache.
func (p *matmul) scaledKBlock(pack *packing, panel, k, n int, ahead memRange) {
	c := p.prepare(pack, panel, k, n, address(&p.s.bPanel[0]), false)
	rows := p.actTo - p.actFrom
	whole, last := rows/mr*mr, (rows%mr+1)&^1
	copied := rows // rows from here on go through scratch: those of a panel or of a tile that ends before its kernel does
	if panel*NR+NR > p.to {
		copied = 0
	} else if whole+last > rows {
		copied = whole
	}
	sums := p.tileSums(whole + last - copied)
	p.eachGroupedSum(panel, copied, func(i int, out []float32) { copy(sums[i*NR:(i+1)*NR], out) })
	for r := 0; r < NR; r += p.rows {
		p.makeWhole(pack, c, r, n)
		ahead := ahead.part(r/p.rows, NR/p.rows)
		if whole > 0 {
			p.scaledTiles(pack, panel, k, n, r, 0, whole, mr, copied, ahead)
			ahead.codes = min(ahead.codes+uintptr(whole/mr*c.blocks*aheadCodes), ahead.codesEnd)
			ahead.scales = min(ahead.scales+uintptr(whole/mr*c.blocks*aheadScales), ahead.scalesEnd)
		}
		if last > 0 {
			p.scaledTiles(pack, panel, k, n, r, whole, last, last, copied, ahead)
		}
	}
	p.eachGroupedSum(panel, copied, func(i int, out []float32) { copy(out, sums[i*NR:]) })
}

// makeWhole leaves rows [r, r+p.rows) of weights of a K-block of n numbers in scratch as scaledTiles takes them.
func (p *matmul) makeWhole(pack *packing, c kBlock, r, n int) {
	group, subBlocks := p.acts.group, p.acts.group/32
	if pack.layout.sub16() {
		subBlocks *= 2
	}
	whole := p.wholeScales
	if c.mins != nil {
		whole = p.wholeScalesMin
	}
	whole(offsetFloats(c.scales, r), &p.s.mins[r], &p.s.groupScales[r], subBlocks, n/group, p.factor[pack.layout], p.far[pack.layout])
	p.unpackHalf[pack.layout](&p.s.bPanel[0], offset(c.codes, 4*r), c.blocks)
}

// scaledTiles multiplies them with so many rows of activations, in tiles of the given height. Sums of rows from copied on are in scratch.
func (p *matmul) scaledTiles(pack *packing, panel, k, n, r, row, rows, height, copied int, ahead memRange) {
	out, ld := &p.tileSums(1)[0], 4*NR
	if row < copied {
		out, ld = &p.out[(p.actFrom+row)*p.ld+panel*NR], 4*p.ld
	} else {
		out = offsetFloats(out, (row-copied)*NR)
	}
	p.scaledTile[pack.layout][height/2-1](offsetFloats(out, r), ld, k == 0, &p.s.bPanel[0], &p.s.scales[r], &p.s.mins[r], &p.s.groupScales[r], p.acts.groupAt(p.actFrom+row, k),
		p.acts.group/32, n/p.acts.group, rows/height, p.acts.groupHeader, ahead.codes, ahead.codesEnd, ahead.scales, ahead.scalesEnd)
}
