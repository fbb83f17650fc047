package price

// residency is where bytes are that a step reads again and again: in a level, but for the share that lies one level further.
type residency struct {
	level  int
	beyond float64 // 0 to 1
}

// A cache holds all of a set that is this much smaller than itself, and nothing any more of one that is this much larger
// and read in the same order every time; between them, a part.
const (
	holdsAll     = 0.75
	holdsNothing = 1.25
)

// residency is the nearest level that holds some of so many bytes.
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

// add puts bytes where they are.
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
