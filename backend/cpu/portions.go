package cpu

import "github.com/ridge-llm/ridge/backend/cpu/gemm"

// portions hands out a product of many rows of activations. Its pieces are a granule of the matrix's rows for one of the passes
// that the activations are multiplied in. A worker has an even part of the granules, pass after pass, and takes half of what
// is left of it each time, so that it goes long ways with the same activations in its cache, and ends with small pieces. One
// that is done takes half of what is left to another, from the end.
type portions struct {
	rows, workers int
	taken         []taken // of each worker's part, in pieces
}

// portion is rows [from, to) of the matrix for one pass.
type portion struct{ pass, from, to int }

func newPortions(rows, workers int) *portions {
	return &portions{rows, workers, make([]taken, workers)}
}

// take gives the worker something to compute in this step, of so many passes; false when all is taken. Steps are never 0.
func (p *portions) take(step uint32, worker, passes int) (portion, bool) {
	granules := (p.rows + gemm.NR - 1) / gemm.NR
	size := 1 + granules*passes>>16 // granules of a piece: taken has 16 bits for each count
	for i := range p.workers {
		other := (worker + i) % p.workers
		first, last := granules*other/p.workers, granules*(other+1)/p.workers
		perPass := (last - first + size - 1) / size
		for perPass > 0 {
			now := p.taken[other].Load()
			next := now
			if uint32(now>>32) != step {
				next = uint64(step) << 32
			}
			front, back := int(next&0xffff), int(next>>16&0xffff)
			left := perPass*passes - front - back
			if left == 0 {
				break
			}
			n, more := min((left+1)/2, perPass-front%perPass), uint64(1)
			at := front
			if i > 0 {
				n, more = min((left+1)/2, perPass-back%perPass), 1<<16
				at = perPass*passes - back - n
			}
			if p.taken[other].CompareAndSwap(now, next+uint64(n)*more) {
				from := first + at%perPass*size
				to := min(from+n*size, last)
				return portion{at / perPass, from * gemm.NR, min(to*gemm.NR, p.rows)}, true
			}
		}
	}
	return portion{}, false
}
