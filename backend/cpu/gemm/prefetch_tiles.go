package gemm

// prefetchDistance is how many bytes ahead of the weights in use memory is prefetched into the L2 cache: far enough for the
// slowest memory at the pace of the fastest kernel.
const prefetchDistance = 8192

// prefetchLines is how many cache lines a dot kernel prefetches in each block from either of the two addresses it is given; the
// kernels' generator (tools/asm/gemm/dot.go) has the same function.
func (f codeLayout) prefetchLines(rows int) int {
	if layoutPlanes[f] == 8 && rows > 4 {
		return 2
	}
	return layoutPlanes[f]
}

// tilePrefetch divides the prefetching of memory among the tiles of activations that use a K-block of weights, so that every
// tile computes while some of the next weights are on their way. Each tile prefetches two shares.
type tilePrefetch struct {
	from   uintptr // what comes prefetchDistance after the K-block's start
	cached uintptr // memory that is in the cache already: for shares that are not needed
	bytes  int     // of the K-block
	tiles  int     // that use the K-block
	tile   int     // so far
	done   int     // bytes given to tiles so far
}

// next is where the next tile prefetches its two shares of the given size from.
func (f *tilePrefetch) next(share int) (ahead [2]uintptr) {
	f.tile++
	due := f.bytes * f.tile / f.tiles
	for i := range ahead {
		ahead[i] = f.cached
		if f.done < due {
			ahead[i] = f.from + uintptr(f.done)
			f.done += share
		}
	}
	return ahead
}
