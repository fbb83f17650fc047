package graph

import (
	"fmt"
	"math"
)

// Pairing says which two numbers of a head are rotated together.
type Pairing uint8

const (
	HalfPairs     Pairing = iota // i and i + Dim/2 (GPT-NeoX, Hugging Face)
	AdjacentPairs                // 2i and 2i + 1 (the RoPE paper, GGUF files of the llama family)
)

func (p Pairing) String() string { return [...]string{"half", "adjacent"}[p] }

// Rotation is a rotary position embedding (Su et al., arXiv:2104.09864): pair i of a head at position p is rotated by the
// angle p × frequency i.
type Rotation struct {
	Name    string // of its value in the graph: "angles"
	Pairing Pairing
	Dim     int // numbers of a head that are rotated; the rest pass unchanged
	Theta   float64
	Scaling Scaling
	// Sections divides the pairs among three axes of positions, time, height and width, with so many pairs each (M-RoPE, Qwen2-VL,
	// arXiv:2409.12191): in this order or, with Interleaved, in turns as long as there are any left of the axis (Qwen3-VL). Zeros: there
	// is one axis.
	Sections    [3]int
	Interleaved bool
}

// PositionAxis is the axis whose position rotates a pair: 0 time, 1 height, 2 width.
func (r *Rotation) PositionAxis(pair int) int {
	if r.Interleaved {
		if axis := pair % 3; axis > 0 && pair < 3*r.Sections[axis] {
			return axis
		}
		return 0
	}
	switch {
	case r.Sections == [3]int{} || pair < r.Sections[0]:
		return 0
	case pair < r.Sections[0]+r.Sections[1]:
		return 1
	}
	return 2
}

// ScalingKind is how frequencies are stretched beyond the context a model was trained on.
type ScalingKind uint8

const (
	NoScaling       ScalingKind = iota
	LinearScaling               // positions divided by Factor (Chen et al., arXiv:2306.15595)
	DynamicScaling              // theta grows with the sequence's length beyond OrigContext ("dynamic NTK")
	Llama3Scaling               // long wavelengths divided by Factor, a ramp between (Llama 3.1)
	YarnScaling                 // Peng et al., arXiv:2309.00071
	LongScaling                 // a divisor for each pair, one set up to OrigContext and one beyond (LongRoPE, Phi-3)
	DivisorsScaling             // a divisor for each pair (GGUF's rope_freqs tensor)
)

func (k ScalingKind) String() string {
	return [...]string{"none", "linear", "dynamic", "llama3", "yarn", "longrope", "divisors"}[k]
}

// Scaling holds a kind's numbers; those that the kind does not use are zero.
type Scaling struct {
	Kind               ScalingKind
	Factor             float64
	OrigContext        int     // context in tokens before stretching
	LowFreq, HighFreq  float64 // Llama3: turns over OrigContext that bound the ramp
	BetaFast, BetaSlow float64 // Yarn: likewise
	Exact              bool    // Yarn: the ramp's ends are not rounded to whole pairs
	Magnitude          float64 // what cosine and sine are multiplied by; 0 means 1
	Short, Long        []float64
}

// Varies reports whether the frequencies depend on the sequence's length.
func (r *Rotation) Varies() bool {
	return r.Scaling.Kind == DynamicScaling || r.Scaling.Kind == LongScaling
}

// String is the rotation's attributes in the graph's text.
func (r *Rotation) String() string {
	s := fmt.Sprintf("theta %g, %d %s", r.Theta, r.Dim, r.Pairing)
	if r.Scaling.Kind != NoScaling {
		s += ", " + r.Scaling.String()
	}
	if r.Sections != [3]int{} {
		s += fmt.Sprintf(", sections %d", r.Sections)
	}
	if r.Interleaved {
		s += " interleaved"
	}
	return s
}

// String is the scaling as text, "yarn ×4 from 4096".
func (c Scaling) String() string {
	s := c.Kind.String()
	if c.Factor != 0 {
		s += fmt.Sprintf(" ×%g", c.Factor)
	}
	if c.OrigContext != 0 {
		s += fmt.Sprintf(" from %d", c.OrigContext)
	}
	return s
}

// Frequencies returns the angle per position of each of the Dim/2 pairs, in radians, for a sequence that will be
// length tokens long, and what cosine and sine are multiplied by. The arithmetic follows Hugging Face's
// modeling_rope_utils, whose frequencies are float32.
func (r *Rotation) Frequencies(length int) (perPosition []float32, magnitude float32) {
	c := r.Scaling
	theta := r.Theta
	if c.Kind == DynamicScaling && length > c.OrigContext {
		stretch := c.Factor*float64(length)/float64(c.OrigContext) - (c.Factor - 1)
		theta *= math.Pow(stretch, float64(r.Dim)/float64(r.Dim-2))
	}
	divisors := c.Short
	if c.Kind == LongScaling && length > c.OrigContext {
		divisors = c.Long
	}
	perPosition = make([]float32, r.Dim/2)
	for i := range perPosition {
		f := math.Pow(theta, -2*float64(i)/float64(r.Dim))
		switch c.Kind {
		case LinearScaling:
			f /= c.Factor
		case Llama3Scaling:
			f = c.llama3(f)
		case YarnScaling:
			keep := 1 - c.yarnRamp(i, r.Dim, r.Theta)
			f = f/c.Factor*(1-keep) + f*keep
		case LongScaling, DivisorsScaling:
			f /= divisors[i]
		}
		perPosition[i] = float32(f)
	}
	magnitude = 1
	if c.Magnitude != 0 {
		magnitude = float32(c.Magnitude)
	}
	return perPosition, magnitude
}

// llama3 leaves short wavelengths alone, divides long ones by Factor and blends between.
func (c Scaling) llama3(f float64) float64 {
	turns := float64(c.OrigContext) * f / (2 * math.Pi) // over the original context
	switch {
	case turns > c.HighFreq:
		return f
	case turns < c.LowFreq:
		return f / c.Factor
	}
	smooth := (turns - c.LowFreq) / (c.HighFreq - c.LowFreq)
	return (1-smooth)*f/c.Factor + smooth*f
}

// yarnRamp is 0 for pairs that make many rotations over the original context, 1 for those that make few.
func (c Scaling) yarnRamp(pair, dim int, theta float64) float64 {
	at := func(turns float64) float64 { // the pair, as a fraction, that makes this many turns
		return float64(dim) * math.Log(float64(c.OrigContext)/(turns*2*math.Pi)) / (2 * math.Log(theta))
	}
	low, high := at(c.BetaFast), at(c.BetaSlow)
	if !c.Exact {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = math.Max(low, 0), math.Min(high, float64(dim-1))
	if low == high {
		high += 0.001
	}
	return min(max((float64(pair)-low)/(high-low), 0), 1)
}
