package price

import (
	"math"

	"github.com/ridge-llm/ridge/graph"
)

// cost is the cost of one operation.
type cost struct {
	work        graph.Work
	read, write traffic
	compute     float64 // its arithmetic at the peak rate, s
	link        float64 // its messages to other devices, s
	memory      float64 // its traffic at the bandwidth of its slowest level, s
	slow        int     // that level
	reading     float64 // its weights and cache rows, when levels come one after the other, s
	values      float64 // and its activations, likewise
	launch      float64 // s
	worked      float64 // expected time of a product's arithmetic and of reading its weights, s: the larger is its bound
	fetched     float64
	seconds     float64 // expected, launch included
}

// cost prices one node of a group in a step with a working set of so many bytes.
func (m *Model) cost(x *group, l *load, set residency) cost {
	if x.adapts && l.adapters.rows == 0 { // it is not launched
		return cost{}
	}
	p := m.profile
	if m.devices > 1 && x.wide == m.own {
		share := l.share(m.devices)
		if m.own {
			share = *l
			share.logits *= m.devices
		}
		l = &share
	}
	w := x.work(l)
	queries := false // go round, and not keys
	if x.queries != nil {
		if q := x.queries.work(l); q.LinkBytes < w.LinkBytes {
			w, queries = q, true
		}
	}
	c := cost{work: w, compute: float64(w.FLOPs) / (p.FLOPs[x.number] * x.skips)}
	near := p.residency(w.ValueRead + w.ValueWrite)
	var far, values, all traffic
	far.add(set, w.WeightBytes+w.CacheRead+w.CacheWrite)
	values.add(near, w.ValueRead+w.ValueWrite)
	for i := range all {
		all[i] = far[i] + values[i]
	}
	c.reading, _, _ = p.seconds(&far)
	c.values, _, _ = p.seconds(&values)
	_, c.memory, c.slow = p.seconds(&all)
	c.read.add(set, w.WeightBytes+w.CacheRead)
	c.read.add(near, w.ValueRead)
	c.write.add(set, w.CacheWrite)
	c.write.add(near, w.ValueWrite)
	switch x.class {
	case Linear:
		c.launch = x.curve.Launch
		rows := x.rowsEach(l)
		whole := p.wholeTiles(rows)
		c.worked, c.fetched = x.curve.at(whole, x.size)*c.compute*whole/max(rows, 1), x.curve.reading(c.slow == len(p.Levels)-1)*c.memory
		c.seconds = overlap(c.worked, c.fetched)
	case Collective: // memory traffic overlaps with the messages; LinkLag includes the launch
		c.link = float64(w.Messages)*p.LinkLag + linkSeconds(w.LinkBytes, p)
		c.seconds = c.link
	case Attention:
		c.launch = x.coef.Launch
		c.seconds = x.coef.Compute*c.compute + x.coef.Memory*c.reading +
			x.coef.Values*p.nearest(&w) + x.coef.Score*float64(x.heads*l.pairs[x.window])
		if x.queries != nil {
			c.link = float64(w.Messages)*p.LinkLag + linkSeconds(w.LinkBytes, p)
			c.seconds = x.roundTrip(c.seconds, c.link, queries)
		}
	default:
		c.launch = x.coef.Launch
		c.seconds = x.coef.Compute*c.compute + x.coef.Memory*(c.reading+c.values)
	}
	switch {
	case x.rides:
		c.launch = 0
	case m.replays(l):
		c.launch *= p.Fit.Replay
	}
	c.seconds += c.launch
	return c
}

// roundTrip is the time of attention that takes so long, where devices send each other what takes so long, s: keys and values of the next device come while it attends to those that are there; queries have
// to be there first, and results come after.
func (x *group) roundTrip(attention, link float64, queries bool) float64 {
	if queries {
		return attention + link
	}
	n := float64(x.rounds)
	return attention/n + (n-1)*max(attention/n, link/(n-1))
}

// wholeTiles is a number of rows rounded up to the device's row tiles.
func (p *Profile) wholeTiles(rows float64) float64 {
	for _, tile := range p.RowTiles {
		if rows <= float64(tile) {
			return float64(tile)
		}
	}
	if n := len(p.RowTiles); n > 0 {
		last := float64(p.RowTiles[n-1])
		return math.Ceil(rows/last) * last
	}
	return rows
}

// nearest is the time of a node's activations at the bandwidth of the nearest level, s.
func (p *Profile) nearest(w *graph.Work) float64 {
	return float64(w.ValueRead+w.ValueWrite) / p.Levels[0].Rate
}

// linkSeconds is the time of bytes on the device's link.
func linkSeconds(bytes int64, p *Profile) float64 {
	if bytes == 0 {
		return 0
	}
	return float64(bytes) / p.Link
}

// floor is the roofline: the least that the node can take.
func (c *cost) floor() float64 { return max(c.compute, c.memory, c.link) }

// bound is the longest term of the roofline, or the launch when that is longer still.
func (c *cost) bound() Bound {
	switch {
	case c.launch > c.seconds-c.launch:
		return Launch
	case c.link > c.seconds/2:
		return Communication
	case c.compute >= c.memory:
		return Compute
	}
	return Memory
}
