package packed

import "math"

// schedule is how the tile scheduler divides a launch: to clusters of 1 << splits blocks, which split the k of whole tiles (split-K; viaGlobal: blocks
// that are no cluster of the hardware, with one tile), or, where streamK is 1, to blocks as equal runs of the k steps of all tiles.
type schedule struct {
	width            int // of gemmSM90.widths
	clusters, splits int
	viaGlobal        bool
	streamK          int32
}

// schedule divides m rows.
func (w *gemmSM90) schedule(m int) (schedule, error) {
	at := 0
	for m > w.widths[at].most {
		at++
	}
	v := &w.widths[at]
	tiles, steps := int(w.base.Tiles)*((m+v.rows-1)/v.rows), tileUnits(int(w.base.K))/v.units
	d := schedule{width: at}
	if v.splits {
		err := v.findClusters(w.sms)
		if err == nil {
			d.clusters, d.splits, d.viaGlobal = v.split(tiles, steps, w.viaGlobal())
		}
		return d, err
	}
	d.clusters = min(tiles, w.sms)
	rounds := (tiles + w.sms - 1) / w.sms
	if float64(tiles*steps)/float64(w.sms)+v.ends < float64(rounds*steps) && tiles <= MaxTiles {
		d.clusters, d.streamK = min(tiles*steps, w.sms), 1
	}
	return d, nil
}

// viaGlobal is how many blocks may reduce through global memory: all must be resident on the GPU at one time.
func (w *gemmSM90) viaGlobal() int {
	if !w.alone {
		return 0
	}
	return w.sms
}

// What a tile takes beside its steps, in steps of 256 columns (0.55 µs on an H200): reducing what two slices or two blocks have and storing it,
// and reducing what more blocks have. Measured with the layers of Llama-3.1-8B in Q4_0, 8 to 32 rows.
const (
	tileEnds     = 0.5
	moreBlocks   = 0.7 // for each doubling
	globalBlocks = 4   // through global memory
	globalMost   = 2   // as a power of two: four blocks
)

// split chooses the split-K: how many clusters of how many blocks (1 << splits) tiles of so many steps are assigned to, so that the block with most to
// do has least of it. Blocks that reduce through global memory, of which there may be so many, have one tile.
func (v *width) split(tiles, steps, blocks int) (clusters, splits int, viaGlobal bool) {
	least := math.Inf(1)
	for i, n := range v.clusters {
		if 1<<i > steps {
			continue
		}
		each := float64((steps+1<<i-1)>>i*v.units)/2 + tileEnds + moreBlocks*float64(max(i-1, 0))
		if n > 0 {
			if time := float64((tiles+n-1)/n) * each; time < least {
				least, clusters, splits, viaGlobal = time, min(tiles, n), i, false
			}
		}
		if i > 0 && i <= globalMost && tiles<<i <= blocks && each+globalBlocks < least {
			least, clusters, splits, viaGlobal = each+globalBlocks, tiles, i, true
		}
	}
	return clusters, splits, viaGlobal
}
