package price

import (
	"math"
	"slices"

	"github.com/ridge-llm/ridge/graph"
)

// Sample is a timed node, of a program with a working set of Set bytes.
type Sample struct {
	Node    *graph.Node
	Step    *graph.Step
	Set     int64
	Seconds float64
}

// terms is the terms of the fit for a sample.
type terms struct {
	cost
	class   Class
	key     string  // the op, or the format of a product's weights
	rows    int     // of a product
	far     bool    // it comes from the main memory, behind a cache
	size    float64 // of a product's weight, as sizeOf
	heads   float64
	nearest float64 // its activations at the nearest level, s
	pairs   float64
	seconds float64
}

// terms computes them from the roofline.
func (p *Profile) terms(s Sample) (terms, error) {
	m := &Model{profile: p, windows: []window{{}}}
	x, err := newGroup(s.Node, p, m.windows)
	if err != nil {
		return terms{}, err
	}
	l := m.measure(s.Step)
	t := terms{cost: m.cost(x, &l, p.residency(s.Set)), class: x.class, key: s.Node.Op.Name(), seconds: s.Seconds}
	t.nearest = p.nearest(&t.work)
	t.rows, t.size, t.heads, t.pairs = int(x.rows(&l)), x.size, float64(x.heads), float64(l.pairs[0])
	if x.class == Linear {
		t.key = s.Node.Weights[0].Format.String()
		t.far = len(p.Levels) > 1 && t.slow == len(p.Levels)-1
	}
	return t, nil
}

// FitSamples finds the coefficients with which the profile's roofline comes nearest to the samples, by relative error.
// Classes without samples stay Typical.
func (p *Profile) FitSamples(samples []Sample) (*Fit, error) {
	roof := p.complete()
	roof.Fit = Roof()
	f := Typical(p)
	products, rows := map[string][]terms{}, map[string][]terms{}
	var attention []terms
	for _, s := range samples {
		t, err := roof.terms(s)
		if err != nil {
			return nil, err
		}
		if t.impossible() {
			continue
		}
		switch t.class {
		case Linear:
			products[t.key] = append(products[t.key], t)
			products[""] = append(products[""], t)
		case Attention:
			attention = append(attention, t)
		default:
			rows[t.key] = append(rows[t.key], t)
			rows[""] = append(rows[""], t)
		}
	}
	for format, all := range products {
		f.Linear[format] = fitCurve(all)
	}
	for op, all := range rows {
		f.Rows[op] = fitCoef(all)
	}
	if len(attention) > 0 {
		f.Attention = fitCoef(attention)
	}
	return f, nil
}

// impossible reports whether a sample is far faster than the roofline, as after a disturbed clock. A fit of relative errors would
// follow such an outlier.
func (t *terms) impossible() bool {
	least := t.compute
	if t.class == Linear {
		least = max(least, t.reading)
	}
	return t.seconds < least/2
}

// fitCoef is the non-negative coefficients of the least relative squares.
func fitCoef(all []terms) Coef {
	rows := make([][]float64, len(all))
	for i, t := range all {
		rows[i] = []float64{1, t.compute, t.reading + t.values, 0, 0}
		if t.class == Attention {
			rows[i] = []float64{1, t.compute, t.reading, t.nearest, t.heads * t.pairs}
		}
		for k := range rows[i] {
			rows[i][k] /= t.seconds
		}
	}
	c := LeastSquares(rows, 5)
	return Coef{Launch: c[0], Compute: c[1], Memory: c[2], Values: c[3], Score: c[4]}
}

// fitCurve fits the curve of products in one format. The launch time is half of the shortest sample; the memory factor is fitted to
// samples that are memory-bound, and the rest of the time is arithmetic.
func fitCurve(all []terms) Curve {
	c := Curve{Launch: math.Inf(1), Memory: math.Inf(1), Far: math.Inf(1)}
	for _, t := range all {
		c.Launch = min(c.Launch, t.seconds/2)
		to := &c.Memory
		if t.far {
			to = &c.Far
		}
		*to = min(*to, t.seconds/t.memory)
	}
	if math.IsInf(c.Memory, 1) {
		c.Memory = c.Far // all of them were far
	}
	if c.Memory = max(c.Memory, leastMemory); math.IsInf(c.Memory, 1) {
		c.Memory = 1
	}
	if c.Far = max(c.Far, leastMemory); math.IsInf(c.Far, 1) {
		c.Far = 0
	}
	var bySize [3]map[int][]float64 // small, large, huge: factors by rows
	for i := range bySize {
		bySize[i] = map[int][]float64{}
	}
	for _, t := range all {
		took, reading := t.seconds-c.Launch, c.reading(t.far)*t.memory
		size := sizeClass(t.size)
		if took <= 0 || t.compute <= 0 || size < 0 {
			continue
		}
		arithmetic := math.Pow(max(math.Pow(took, 4)-math.Pow(reading, 4), math.Pow(took/4, 4)), 0.25)
		to := bySize[size]
		to[t.rows] = append(to[t.rows], arithmetic/t.compute)
	}
	for rows, factors := range bySize[0] {
		p := Point{Rows: rows, Small: median(factors)}
		if p.Large = p.Small; len(bySize[1][rows]) > 0 {
			p.Large = median(bySize[1][rows])
		}
		if huge := bySize[2][rows]; len(huge) > 0 {
			p.Huge = median(huge)
		}
		c.Points = append(c.Points, p)
	}
	slices.SortFunc(c.Points, func(a, b Point) int { return a.Rows - b.Rows })
	return c
}

// sizeClass is which factor of a Point a weight of this size tells: small 0, large 1, huge 2; -1: none.
func sizeClass(size float64) int {
	switch {
	case size <= 0.5:
		return 0
	case size <= 1.1:
		return 1
	case size >= 1.95:
		return 2
	}
	return -1
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// leastMemory is the lower bound of the memory factor.
const leastMemory = 0.7
