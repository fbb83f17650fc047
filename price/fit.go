package price

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/ridge-llm/ridge/quant"
)

// Fit is the efficiency of a device's kernels relative to its roofline: a few coefficients for each class of nodes. A time is
//
//	launch + ‖ Compute × FLOPs/peak , Memory × bytes/bandwidth ‖    of a product, where the two overlap
//	launch + Compute × FLOPs/peak + Memory × bytes/bandwidth + …    of every other node
//
// where ‖a, b‖ is a smooth maximum; see overlap.
type Fit struct {
	// Linear has a curve for each format of weights that was measured, by its name ("Q4_0"); "" is for the others.
	Linear    map[string]Curve `json:"linear"`
	Attention Coef             `json:"attention"`
	// Rows has coefficients for each op that treats rows one by one, by its name ("RMSNorm"); "" is for the others.
	Rows map[string]Coef `json:"rows"`

	Step   float64 `json:"step_seconds"`                   // CPU time of a step: filling the batch, waking the device
	Row    float64 `json:"row_seconds"`                    // CPU time of each token row
	Read   float64 `json:"read_seconds,omitempty"`         // of reading logits, for each
	Logit  float64 `json:"logit_seconds"`                  // of sampling, for each number in a row of logits
	Greedy float64 `json:"greedy_logit_seconds,omitempty"` // likewise when the most likely token is taken

	// Of a device that Replays, in the steps that it does that for: × the launches' times, and Step.
	Replay     float64 `json:"replay_launch,omitempty"`
	ReplayStep float64 `json:"replay_step_seconds,omitempty"`
}

// Curve is the cost of a product as a function of its rows.
type Curve struct {
	Launch float64 `json:"launch_seconds"`
	Memory float64 `json:"memory"`        // × the time its weights take at the bandwidth of the cache that they are in
	Far    float64 `json:"far,omitempty"` // likewise from the main memory; 0: as Memory
	Points []Point `json:"points"`        // by rows, ascending
}

// Point is the cost of a product of so many rows with cached weights, as a multiple of the time of its arithmetic at the peak rate. The
// factor is interpolated over the logarithm of the weight's size.
type Point struct {
	Rows  int     `json:"rows"`
	Small float64 `json:"small"`          // of a weight of SmallWeight numbers, or fewer
	Large float64 `json:"large"`          // of LargeWeight
	Huge  float64 `json:"huge,omitempty"` // of HugeWeight, or more; 0: as Large
}

// The sizes of weights that a Point gives factors for. A large one occupies all cores of a CPU, a huge one those of a GPU.
const (
	SmallWeight = 1 << 16
	LargeWeight = 1 << 21
	HugeWeight  = 1 << 25
)

// Coef is the coefficients of a class whose terms add up.
type Coef struct {
	Launch  float64 `json:"launch_seconds"`
	Compute float64 `json:"compute"`                 // × FLOPs / peak rate
	Memory  float64 `json:"memory"`                  // × bytes / bandwidth
	Values  float64 `json:"values,omitempty"`        // of attention, × bytes of queries and results / the nearest bandwidth; Memory is for its cache rows
	Score   float64 `json:"score_seconds,omitempty"` // of attention: for each pair of a token and a cache row, and query head
}

// overlap is ‖a, b‖ = (a⁴ + b⁴)^¼: where both are equal it is 19 % above either.
func overlap(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if b <= 0 {
		return a
	}
	r := b / a
	r *= r
	return a * math.Sqrt(math.Sqrt(1+r*r))
}

// reading is the curve's factor for weights that come from a cache, or from the main memory.
func (c *Curve) reading(far bool) float64 {
	if far && c.Far > 0 {
		return c.Far
	}
	return c.Memory
}

// at is the curve's compute factor for so many rows and a weight of this size (0 small, 1 large), between points by the
// logarithm of the rows.
func (c *Curve) at(rows, size float64) float64 {
	p := c.Points
	if rows <= float64(p[0].Rows) {
		return p[0].at(size)
	}
	for i := 1; i < len(p); i++ {
		if rows <= float64(p[i].Rows) {
			lo, hi := float64(p[i-1].Rows), float64(p[i].Rows)
			before, after := p[i-1].at(size), p[i].at(size)
			return before + math.Log(rows/lo)/math.Log(hi/lo)*(after-before)
		}
	}
	return p[len(p)-1].at(size)
}

// at is the point's factor for a size. Between a large and a huge weight it is the factor's logarithm that is a line: while some
// of a device's processors have nothing to do, a larger product takes no longer.
func (p *Point) at(size float64) float64 {
	if size <= 1 || p.Huge <= 0 || p.Large <= 0 {
		return p.Small + min(size, 1)*(p.Large-p.Small)
	}
	return p.Large * math.Pow(p.Huge/p.Large, size-1)
}

// sizeOf is where a weight of so many numbers lies between a small (0), a large (1) and a huge one (2).
func sizeOf(numbers int) float64 {
	log := math.Log(float64(numbers))
	small, large, huge := math.Log(SmallWeight), math.Log(LargeWeight), math.Log(HugeWeight)
	if log <= large {
		return max((log-small)/(large-small), 0)
	}
	return min(1+(log-large)/(huge-large), 2)
}

// curve is the one for a format of weights, or for the format whose kernels it shares.
func (f *Fit) curve(format quant.Format) *Curve {
	c, ok := f.Linear[format.String()]
	if as := format.Descriptor().TimedAs; !ok && as != quant.Invalid {
		c, ok = f.Linear[as.String()]
	}
	if !ok {
		c = f.Linear[""]
	}
	return &c
}

// maxFactor bounds the factors of a valid profile.
const maxFactor = 1e6

func (f *Fit) validate(bad func(field string, got any, want string) error) error {
	if _, ok := f.Linear[""]; !ok {
		return bad(`fit.linear[""]`, "missing", "the curve of formats that have none of their own")
	}
	for _, format := range slices.Sorted(maps.Keys(f.Linear)) {
		c := f.Linear[format]
		at := fmt.Sprintf("fit.linear[%q]", format)
		if len(c.Points) == 0 {
			return bad(at+".points", "empty", "one point or more")
		}
		if !within(c.Launch, 0, maxOverhead) || !within(c.Memory, 0, maxFactor) || !within(c.Far, 0, maxFactor) {
			return bad(at, fmt.Sprintf("launch_seconds %g, memory %g and far %g", c.Launch, c.Memory, c.Far), fmt.Sprintf("0 to %g s and factors of 0 to %g", maxOverhead, maxFactor))
		}
		for i, p := range c.Points {
			if p.Rows < 1 || i > 0 && p.Rows <= c.Points[i-1].Rows || !within(p.Small, 0, maxFactor) || !within(p.Large, 0, maxFactor) || !within(p.Huge, 0, maxFactor) {
				return bad(fmt.Sprintf("%s.points[%d]", at, i), fmt.Sprintf("%+v", p), fmt.Sprintf("of more rows than the one before, with factors of 0 to %g", maxFactor))
			}
		}
	}
	if _, ok := f.Rows[""]; !ok {
		return bad(`fit.rows[""]`, "missing", "the coefficients of ops that have none of their own")
	}
	coefs := maps.Clone(f.Rows)
	coefs["Attention"] = f.Attention
	for _, op := range slices.Sorted(maps.Keys(coefs)) {
		c := coefs[op]
		if !within(c.Launch, 0, maxOverhead) || !within(c.Compute, 0, maxFactor) || !within(c.Memory, 0, maxFactor) || !within(c.Values, 0, maxFactor) || !within(c.Score, 0, maxOverhead) {
			return bad("fit's coefficients of "+op, fmt.Sprintf("%+v", c), fmt.Sprintf("times of 0 to %g s and factors of 0 to %g", maxOverhead, maxFactor))
		}
	}
	for _, s := range []struct {
		name    string
		seconds float64
	}{{"step_seconds", f.Step}, {"row_seconds", f.Row}, {"logit_seconds", f.Logit}, {"greedy_logit_seconds", f.Greedy}, {"read_seconds", f.Read}, {"replay_step_seconds", f.ReplayStep}} {
		if !within(s.seconds, 0, maxOverhead) {
			return bad("fit."+s.name, s.seconds, fmt.Sprintf("0 to %g", maxOverhead))
		}
	}
	if !within(f.Replay, 0, maxFactor) {
		return bad("fit.replay_launch", f.Replay, fmt.Sprintf("a factor of 0 to %g", maxFactor))
	}
	return nil
}

// sparseGain is how many times as fast as dense products those of many rows with 2:4 sparse weights are, measured on an H200 (bench/h200.md).
const sparseGain = 1.37

// Typical is the fit of a device that was not measured: the fraction of published peaks that good kernels reach.
// docs/price.md says where the figures are from.
func Typical(p *Profile) *Fit {
	overhead := p.Launch + p.Barrier
	linear := func(of float64) Curve { // at a part of what is usual
		return Curve{Launch: overhead, Memory: 1 / 0.8, Points: []Point{
			{1, 1 / (of * 0.3), 1 / (of * 0.3), 0}, {64, 1 / (of * 0.3), 1 / (of * 0.45), 0}, {256, 1 / (of * 0.3), 1 / (of * 0.55), 0}, {1024, 1 / (of * 0.3), 1 / (of * 0.65), 0},
			{4096, 1 / (of * 0.3), 1 / (of * 0.7), 0},
		}}
	}
	curves := map[string]Curve{"": linear(1)}
	for _, f := range []quant.Format{quant.BF16_2_4, quant.F16_2_4} {
		if s := p.skips(BF16, f); s > 1 {
			curves[f.String()] = linear(sparseGain / s)
		}
	}
	return &Fit{
		Linear:    curves,
		Attention: Coef{Launch: overhead, Compute: 1 / 0.5, Memory: 1 / 0.75, Values: 1 / 0.7},
		Rows:      map[string]Coef{"": {Launch: overhead, Compute: 1 / 0.5, Memory: 1 / 0.7}},
		Replay:    1,
	}
}

// Roof is the identity fit: every kernel at the roofline, launches free.
func Roof() *Fit {
	one := Coef{Compute: 1, Memory: 1}
	return &Fit{Linear: map[string]Curve{"": {Memory: 1, Points: []Point{{1, 1, 1, 0}}}}, Attention: Coef{Compute: 1, Memory: 1, Values: 1}, Rows: map[string]Coef{"": one}}
}

// coef is the coefficients of an op that treats rows one by one.
func (f *Fit) coef(op string) *Coef {
	c, ok := f.Rows[op]
	if !ok {
		c = f.Rows[""]
	}
	return &c
}
