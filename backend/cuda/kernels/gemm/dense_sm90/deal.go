package densesm90

// deal is how tiles are dealt out: to how many teams of blocks, how many of the tiles go as a stream, the gap between those, and what it
// costs, in steps.
type deal struct {
	teams       int
	stream, gap int32
	cost        float64
}

const (
	mostPieces = 8  // of a tile: more take longer to add up than they save
	gap        = 4  // steps that a team loses when it goes on into the next tile of a stream
	uneven     = 14 // what waiting for those teams costs all, beside join
)

// share deals tiles of so many steps out to at most `most` teams of blocks. Whole tiles in turn leave teams idle in the last round; or
// that round's tiles go as a stream, which has to be added up.
func share(most int, tiles, steps int32, step, join float64) deal {
	n := int32(most)
	whole := deal{teams: int(min(n, tiles)), cost: float64((tiles+n-1)/n*steps) * step}
	rest := tiles % n
	if tiles > n && rest*mostPieces < n {
		rest = min(rest+n, tiles)
	}
	cut := deal{teams: most, stream: rest, gap: gap, cost: join + uneven}
	if rest == tiles {
		n = min(n, tiles*min(mostPieces, steps))
		if n%tiles*16 <= n { // the teams of one tile share with no other
			n -= n % tiles
			cut.gap, cut.cost = 0, join
		}
		cut.teams = int(n)
	}
	if rest*steps < n*2*gap {
		cut.gap = 0
	}
	cut.cost += (float64((tiles-rest)/n*steps) + float64(rest*steps)/float64(n)) * step
	if rest == 0 || rest*steps < n || whole.cost <= cut.cost {
		return whole
	}
	return cut
}
