package price

import "github.com/ridge-llm/ridge/graph"

// cost is what one node takes.
type cost struct {
	work      graph.Work
	near, far int     // levels that values, and weights and caches, lie in
	compute   float64 // its arithmetic at the peak rate, s
	memory    float64 // its traffic at the bandwidth of its slowest level, s
	slow      int     // that level
	traffic   float64 // its traffic when levels come one after the other, s
	values    float64 // of traffic, that of the activations
	launch    float64 // s
	seconds   float64 // what is expected, launch included
}

// home is the nearest level that holds so many bytes.
func (p *Profile) home(bytes int64) int {
	for i, l := range p.Levels {
		if bytes <= l.Bytes {
			return i
		}
	}
	return len(p.Levels) - 1
}

// seconds is what traffic of a level takes at its bandwidth.
func (l *Level) seconds(bytes int64) float64 { return float64(bytes) / l.Rate }

// cost prices one node of a group in a step with a working set of so many bytes.
func (m *Model) cost(x *group, l *load, set int64) cost {
	p := m.profile
	w := x.work(l)
	c := cost{work: w, far: p.home(set), near: p.home(w.ValueRead + w.ValueWrite)}
	c.compute = float64(w.FLOPs) / p.FLOPs[x.number]
	far := p.Levels[c.far].seconds(w.WeightBytes + w.CacheRead + w.CacheWrite)
	c.values = p.Levels[c.near].seconds(w.ValueRead + w.ValueWrite)
	c.traffic = far + c.values
	c.memory, c.slow = max(far, c.values), c.far
	if c.near == c.far {
		c.memory = c.traffic
	} else if c.values > far {
		c.slow = c.near
	}
	if x.class == Linear {
		c.launch = x.curve.Launch
		c.seconds = c.launch + overlap(x.curve.at(x.rows(l), x.size)*c.compute, x.curve.Memory*c.memory)
		return c
	}
	c.launch = x.coef.Launch
	c.seconds = c.launch + x.coef.Compute*c.compute + x.coef.Memory*c.traffic
	if x.class == Attention {
		c.seconds += x.coef.Values*p.Levels[0].seconds(w.ValueRead+w.ValueWrite) - x.coef.Memory*c.values + x.coef.Score*float64(x.heads*l.pairs[x.window])
	}
	return c
}

// floor is the roofline: the least that the node can take.
func (c *cost) floor() float64 { return max(c.compute, c.memory) }

// bound is what the node waits for: the longest of what the roofline knows, or its launch when that is longer still.
func (c *cost) bound() Bound {
	switch {
	case c.launch > c.seconds-c.launch:
		return Launch
	case c.compute >= c.memory:
		return Compute
	}
	return Memory
}
