package gemm

// aheadBytes is how far ahead of the weights in use memory is read into the second-level cache: far enough for the
// slowest memory at the pace of the fastest kernel.
const aheadBytes = 8192

// aheadLines is how many cache lines a dot kernel fetches in each block from either of the two places it is given; the
// kernels' generator has the same function.
func (f formID) aheadLines(rows int) int {
	if formPlanes[f] == 8 && rows > 4 {
		return 2
	}
	return formPlanes[f]
}

// fetching shares the reading of memory out among the tiles of activations that use a chunk of weights, so that every
// tile computes while some of the next weights are on their way. Each tile has two shares to give.
type fetching struct {
	from  uintptr // what comes aheadBytes after this chunk's start
	idle  uintptr // memory that is in the cache already: for shares that are not needed
	bytes int     // of the chunk
	tiles int     // that the chunk is used by
	tile  int     // so far
	done  int     // bytes given to tiles so far
}

// next is where the next tile fetches its two shares of the given size from.
func (f *fetching) next(share int) (ahead [2]uintptr) {
	f.tile++
	due := f.bytes * f.tile / f.tiles
	for i := range ahead {
		ahead[i] = f.idle
		if f.done < due {
			ahead[i] = f.from + uintptr(f.done)
			f.done += share
		}
	}
	return ahead
}
