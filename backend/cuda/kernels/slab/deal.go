package slab

import "math"

// deal is how a launch's work is dealt out: to clusters of 1 << splits blocks, which cut the columns of whole tiles between them, or, where
// stream is 1, to blocks as equal runs of the steps of all tiles.
type deal struct {
	width            int // of wide.widths
	clusters, splits int
	stream           int32
}

// deal says how m rows are dealt out.
func (w *wide) deal(m int) deal {
	at := 0
	for m > w.widths[at].most {
		at++
	}
	v := &w.widths[at]
	tiles, steps := int(w.base.Tiles)*((m+v.rows-1)/v.rows), tileUnits(int(w.base.K))/v.units
	d := deal{width: at}
	if v.splits {
		d.clusters, d.splits = v.split(tiles, steps)
		return d
	}
	d.clusters = min(tiles, w.sms)
	rounds := (tiles + w.sms - 1) / w.sms
	if float64(tiles*steps)/float64(w.sms)+v.ends < float64(rounds*steps) && tiles <= MaxTiles {
		d.clusters, d.stream = min(tiles*steps, w.sms), 1
	}
	return d
}

// What a tile takes beside its steps, in steps (0.55 µs on an H200): adding up what two teams or two blocks have and writing it, and adding up
// what more blocks have. Measured with the layers of Llama-3.1-8B in Q4_0, 8 to 32 rows.
const (
	tileEnds   = 0.5
	moreBlocks = 0.7 // for each doubling
)

// split is how many clusters of how many blocks (1 << splits) tiles of so many steps are dealt out to, so that the block with most to do
// has least of it.
func (v *width) split(tiles, steps int) (clusters, splits int) {
	least := math.Inf(1)
	for i, n := range v.clusters {
		if n == 0 || 1<<i > steps {
			continue
		}
		each := float64((steps+1<<i-1)>>i) + tileEnds + moreBlocks*float64(max(i-1, 0))
		if time := float64((tiles+n-1)/n) * each; time < least {
			least, clusters, splits = time, min(tiles, n), i
		}
	}
	return clusters, splits
}
