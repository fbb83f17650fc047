package diffusion

import "math"

// Sure is how sure a model is of a token by its row of logits, [vocab]. NaN logits count as −Inf.
func (o *Options) Sure(logits []float32, token int32) float64 {
	first, second := math.Inf(-1), math.Inf(-1)
	for _, x := range logits {
		if x := float64(x); x > first {
			first, second = x, first
		} else if x > second {
			second = x
		}
	}
	var sum, weighted float64 // of e^(x − first), and of that times x − first
	for _, x := range logits {
		if d := float64(x) - first; d > -80 { // what is less likely adds nothing to a float64's digits that matter here
			e := math.Exp(d)
			sum += e
			weighted += e * d
		}
	}
	switch o.Algorithm {
	case Margin:
		return (1 - math.Exp(second-first)) / sum
	case Entropy:
		return weighted/sum - math.Log(sum)
	}
	return math.Exp(float64(logits[token])-first) / sum
}
