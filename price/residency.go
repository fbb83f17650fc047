package price

// residency is the memory level that serves bytes which every step reads again; a share of them comes from the next level.
type residency struct {
	level  int
	beyond float64 // 0 to 1
}

// A working set of up to holdsAll of a cache's size hits in it; one of holdsNothing or more, read in the same order every time, misses
// with LRU; between them the hit rate is interpolated.
const (
	holdsAll     = 0.75
	holdsNothing = 1.25
)

// residency is that of a working set of so many bytes.
func (p *Profile) residency(bytes int64) residency {
	last := len(p.Levels) - 1
	for i := range p.Levels[:last] {
		full := float64(bytes) / float64(p.Levels[i].Bytes)
		if full < holdsNothing {
			return residency{i, max(full-holdsAll, 0) / (holdsNothing - holdsAll)}
		}
	}
	return residency{level: last}
}

// traffic is bytes by level.
type traffic [MaxLevels]int64

// add counts bytes at the levels of a residency.
func (t *traffic) add(h residency, bytes int64) {
	if h.beyond > 0 {
		beyond := int64(h.beyond * float64(bytes))
		t[h.level+1] += beyond
		bytes -= beyond
	}
	t[h.level] += bytes
}

// seconds is what the traffic takes at each level's bandwidth, one after the other; and of the slowest level alone.
func (p *Profile) seconds(t *traffic) (sum, longest float64, slowest int) {
	for i := range p.Levels {
		s := float64(t[i]) / p.Levels[i].Rate
		if sum += s; s > longest {
			longest, slowest = s, i
		}
	}
	return sum, longest, slowest
}
