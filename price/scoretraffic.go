package price

import "github.com/ridge-llm/ridge/graph"

// scorePasses is how often naive attention moves each score: written by the product, read and written by softmax, read by
// the product with the values (Dao et al., arXiv:2205.14135, section 3.1).
const scorePasses = 4

// AddScoreTraffic adds to a breakdown the traffic of attention without tiling: separate matrix products and softmax write and read the
// F32 score of every pair of a token and a cache row, for every head.
func (m *Model) AddScoreTraffic(b *Breakdown, s *graph.Step) {
	l := m.measure(s)
	for _, x := range m.groups {
		if x.class != Attention {
			continue
		}
		scores := 4 * x.heads * l.pairs[x.window]
		var moved traffic
		moved.add(m.profile.residency(scores), scorePasses*scores)
		more, _, slow := m.profile.seconds(&moved)
		for _, n := range x.nodes {
			for i := range b.Lines {
				if b.Lines[i].Node == n {
					b.addScores(&b.Lines[i], &moved, more, slow)
				}
			}
		}
	}
	b.Intensity = intensity(b.Work)
}

// addScores adds traffic that takes so many seconds to a line, half of it read.
func (b *Breakdown) addScores(l *Line, moved *traffic, seconds float64, slow int) {
	for i, bytes := range moved {
		l.Read[i] += bytes / 2
		l.Write[i] += bytes - bytes/2
		b.Read[i] += bytes / 2
		b.Write[i] += bytes - bytes/2
		l.Work.ValueRead += bytes / 2
		l.Work.ValueWrite += bytes - bytes/2
		b.Work.ValueRead += bytes / 2
		b.Work.ValueWrite += bytes - bytes/2
	}
	l.Intensity, l.Bound, l.Level = intensity(l.Work), Memory, slow
	l.Seconds += seconds
	l.Floor += seconds
	b.Seconds += seconds
	b.Floor += seconds
	b.By[ByValues] += seconds
}
