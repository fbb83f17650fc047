package gemm

// A batchFunc is a weight-stationary micro-kernel for decode batches: it adds the products of groups of rows of Q8 activations, stride
// bytes apart, with 32 rows of weights to sums, [rows][32]: codes at w, expanded scales at scale, and minima at mins where the
// format has them, nil otherwise. groups says how many rows there are, in the tier's way (batchGroups). Q8 blocks of a row are step bytes
// apart; kernels that multiply bytes as words take those of widenBatch instead. Meanwhile it prefetches aheadStep bytes for each
// block, from ahead on, and BesideBytes from the next address of beside on, unless that is 0, or beside nil.
type batchFunc func(sums *float32, groups uint64, w *byte, scale, mins *float32, act *byte, stride, step, blocks int, ahead uintptr, aheadStep int, beside *uintptr)

// batchRows is the most rows of activations that a batch kernel with 32 registers computes at a time, and minBatchRows the fewest rows for which
// such kernels are used: fewer fit into one tile of a dot kernel.
const (
	batchRows    = 6
	minBatchRows = 7
)

// batchWords is the size of a block of a row of activations in words: 32 of them, and a float32 scale.
const batchWords = 64 + 4

// batchGroups divides rows evenly among as few groups as possible: byte i of the result is the number of groups of batchRows - i rows.
func batchGroups(rows int) uint64 {
	count := (rows + batchRows - 1) / batchRows
	size, larger := rows/count, rows%count
	groups := uint64(count-larger) << (8 * (batchRows - size))
	if larger > 0 {
		groups |= uint64(larger) << (8 * (batchRows - size - 1))
	}
	return groups
}

// mulBatch multiplies packed weights with a batch of Q8 rows: codes are unpacked once, into registers, for all rows. The sums of a
// panel are kept together in scratch until it is done: rows of out lie pages apart, and would evict each other from the L1 cache.
func (p *matmul) mulBatch(pack *packing, batch batchFunc, pre *prefetcher) {
	words := p.wordTile[pack.layout] != nil
	once := (p.actTo-p.actFrom)*p.w.Cols/32*batchWords <= len(p.s.acts)
	if words && once {
		p.widenBatch(0, p.w.Cols)
	}
	for panel := p.from / NR; panel*NR < p.to; panel++ {
		clear(p.s.sums[:(p.actTo-p.actFrom)*NR])
		for k := 0; k < p.w.Cols; k += kc {
			if k+kc >= p.w.Cols {
				p.prefetchSums(panel)
			}
			n := min(kc, p.w.Cols-k)
			act := p.acts.blocksAt(p.actFrom, k)
			switch {
			case words && once:
				act = p.widened(k)
			case words:
				p.widenBatch(k, n)
				act = p.widened(0)
			}
			p.batchKBlock(pack, batch, panel, k, n, act, pre)
		}
		p.storeSums(panel)
	}
}

// batchKBlock multiplies k in [k, k+n) of one panel of NR rows with all rows of activations.
func (p *matmul) batchKBlock(pack *packing, batch batchFunc, panel, k, n int, act blockAddr, pre *prefetcher) {
	cached := address(&p.s.bPanel[0])
	c := p.prepare(pack, panel, k, n, cached, false)
	bytes := n/p.w.Format.Block()*pack.size + c.blocks*pack.layout.blockBytes()
	ahead, aheadStep := pre.next(bytes, cached), 0
	if ahead != cached {
		aheadStep = (bytes + c.blocks - 1) / c.blocks
	}
	var beside *uintptr
	if len(p.s.beside) >= c.blocks {
		beside, p.s.beside = &p.s.beside[0], p.s.beside[c.blocks:]
	}
	batch(&p.s.sums[0], p.batchGroups(p.actTo-p.actFrom), c.codes, c.scales, c.mins, act.first, act.rowStride, act.blockStride, c.blocks, ahead, aheadStep, beside)
}

// widenBatch makes words of k in [k, k+n) of all rows, in the order in which a batch kernel reads them.
func (p *matmul) widenBatch(k, n int) {
	to := p.widened(0)
	for row := p.actFrom; row < p.actTo; row++ {
		from := p.acts.blocksAt(row, k)
		words := offset(to.first, (row-p.actFrom)*to.rowStride)
		p.widenBlocks(words, offset(words, 64), to.blockStride, from.first, from.blockStride, n/32)
	}
}

// widened is where the words of number k on lie, if they begin with 0.
func (p *matmul) widened(k int) blockAddr {
	step := (p.actTo - p.actFrom) * batchWords
	return blockAddr{first: &p.s.acts[k/32*step], rowStride: batchWords, blockStride: step}
}

// prefetchSums prefetches, for writing, the part of out that a panel's sums go to.
func (p *matmul) prefetchSums(panel int) {
	if n := panel * NR; n+NR <= p.to {
		p.prefetchOut(&p.out[p.actFrom*p.ld+n], 4*p.ld, p.actTo-p.actFrom)
	}
}

// storeSums writes a panel's sums to out.
func (p *matmul) storeSums(panel int) {
	if n := panel * NR; n+NR <= p.to {
		p.storeBatch(&p.out[p.actFrom*p.ld+n], 4*p.ld, &p.s.sums[0], p.actTo-p.actFrom)
		return
	}
	for row := p.actFrom; row < p.actTo; row++ {
		copy(p.out[row*p.ld+panel*NR:row*p.ld+p.to], p.s.sums[(row-p.actFrom)*NR:])
	}
}
