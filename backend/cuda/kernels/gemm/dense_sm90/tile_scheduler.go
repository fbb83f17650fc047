package densesm90

// schedule is how the tile scheduler assigns tiles: to how many clusters, how many of the tiles are stream-K, the switch cost of those, and what
// it all costs, in steps.
type schedule struct {
	clusters                int
	streamTiles, switchCost int32
	cost                    float64
}

const (
	mostSplits = 8  // clusters of a tile: more take longer to reduce than they save
	switchCost = 4  // steps that a cluster loses when it goes on into the next stream-K tile
	uneven     = 14 // what waiting for those clusters costs all, beside the fix-up
)

// newSchedule assigns tiles of so many steps to at most `most` clusters. Whole tiles (data parallel) leave clusters idle in the last wave; or that
// wave's tiles are stream-K, which takes a fix-up.
func newSchedule(most int, tiles, steps int32, step, fixup float64) schedule {
	n := int32(most)
	whole := schedule{clusters: int(min(n, tiles)), cost: float64((tiles+n-1)/n*steps) * step}
	rest := tiles % n
	if tiles > n && rest*mostSplits < n {
		rest = min(rest+n, tiles)
	}
	cut := schedule{clusters: most, streamTiles: rest, switchCost: switchCost, cost: fixup + uneven}
	if rest == tiles {
		n = min(n, tiles*min(mostSplits, steps))
		if n%tiles*16 <= n { // the clusters of one tile share with no other
			n -= n % tiles
			cut.switchCost, cut.cost = 0, fixup
		}
		cut.clusters = int(n)
	}
	if rest*steps < n*2*switchCost {
		cut.switchCost = 0
	}
	cut.cost += (float64((tiles-rest)/n*steps) + float64(rest*steps)/float64(n)) * step
	if rest == 0 || rest*steps < n || whole.cost <= cut.cost {
		return whole
	}
	return cut
}
