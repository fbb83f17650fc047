package packed

import "math"

// deal is how a launch's work is dealt out: to clusters of 1 << splits blocks, which cut the columns of whole tiles between them (apart: which
// are no clusters of the hardware, each with one tile), or, where stream is 1, to blocks as equal runs of the steps of all tiles.
type deal struct {
	width            int // of wide.widths
	clusters, splits int
	apart            bool
	stream           int32
}

// deal says how m rows are dealt out.
func (w *wide) deal(m int) (deal, error) {
	at := 0
	for m > w.widths[at].most {
		at++
	}
	v := &w.widths[at]
	tiles, steps := int(w.base.Tiles)*((m+v.rows-1)/v.rows), tileUnits(int(w.base.K))/v.units
	d := deal{width: at}
	if v.splits {
		err := v.findClusters(w.sms)
		if err == nil {
			d.clusters, d.splits, d.apart = v.split(tiles, steps, w.apart())
		}
		return d, err
	}
	d.clusters = min(tiles, w.sms)
	rounds := (tiles + w.sms - 1) / w.sms
	if float64(tiles*steps)/float64(w.sms)+v.ends < float64(rounds*steps) && tiles <= MaxTiles {
		d.clusters, d.stream = min(tiles*steps, w.sms), 1
	}
	return d, nil
}

// apart is how many blocks may exchange sums that are no cluster: all must be on the GPU at one time.
func (w *wide) apart() int {
	if !w.alone {
		return 0
	}
	return w.sms
}

// What a tile takes beside its steps, in steps of 256 columns (0.55 µs on an H200): adding up what two teams or two blocks have and writing it,
// and adding up what more blocks have. Measured with the layers of Llama-3.1-8B in Q4_0, 8 to 32 rows.
const (
	tileEnds    = 0.5
	moreBlocks  = 0.7 // for each doubling
	apartBlocks = 4   // through memory
	apartMost   = 2   // as a power of two: four blocks
)

// split is how many clusters of how many blocks (1 << splits) tiles of so many steps are dealt out to, so that the block with most to do
// has least of it. Blocks that are no cluster, of which there are so many, have one tile.
func (v *width) split(tiles, steps, blocks int) (clusters, splits int, apart bool) {
	least := math.Inf(1)
	for i, n := range v.clusters {
		if 1<<i > steps {
			continue
		}
		each := float64((steps+1<<i-1)>>i*v.units)/2 + tileEnds + moreBlocks*float64(max(i-1, 0))
		if n > 0 {
			if time := float64((tiles+n-1)/n) * each; time < least {
				least, clusters, splits, apart = time, min(tiles, n), i, false
			}
		}
		if i > 0 && i <= apartMost && tiles<<i <= blocks && each+apartBlocks < least {
			least, clusters, splits, apart = each+apartBlocks, tiles, i, true
		}
	}
	return clusters, splits, apart
}
