package evaluate

import (
	"fmt"
	"math"
)

// Result is what a model makes of a text.
type Result struct {
	Windows    int     `json:"windows"`
	Tokens     int     `json:"tokens"` // that were predicted
	NLL        float64 `json:"nll"`    // of a token, on average, in nats
	Perplexity float64 `json:"perplexity"`
	StdErr     float64 `json:"perplexity_stderr"`

	Speed Speed `json:"speed"`

	// Against another model, the reference; nil without one.
	Against *Divergence `json:"against,omitempty"`
}

// Divergence compares a model's predictions with a reference's.
type Divergence struct {
	Perplexity float64 `json:"reference_perplexity"`
	KL         float64 `json:"kl"`         // D(reference ‖ model) on average, in nats
	KLMax      float64 `json:"kl_max"`     // of one token
	Top1       float64 `json:"top1_agree"` // share of tokens for which both have the same most likely one
}

// sums accumulates a model's losses.
type sums struct {
	n           int
	nll, square float64
}

func (s *sums) add(nll float64) {
	s.n++
	s.nll += nll
	s.square += nll * nll
}

// Perplexity computes windows of a text with a model, and with a reference if there is one (else nil). progress is called after each window.
func Perplexity(m, reference *Model, windows []Window, progress func(done int, perplexity float64)) (*Result, error) {
	if reference != nil && reference.Vocab() != m.Vocab() {
		return nil, fmt.Errorf("evaluate: the models have vocabularies of %d and %d tokens; only models of the same vocabulary can be compared", m.Vocab(), reference.Vocab())
	}
	var own, theirs sums
	div := &Divergence{}
	same := 0
	var rows [][]float32 // of the reference, log probabilities
	for i, w := range windows {
		rows = rows[:0]
		if reference != nil {
			err := reference.Logits(w, func(token int32, logits []float32) error {
				p := make([]float32, len(logits))
				logSoftmax(p, logits)
				theirs.add(-float64(p[token]))
				rows = append(rows, p)
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		at := 0
		p := make([]float32, m.Vocab())
		err := m.Logits(w, func(token int32, logits []float32) error {
			logSoftmax(p, logits)
			if v := p[token]; v != v {
				return fmt.Errorf("evaluate: window %d: the logits that predict token %d of the scored ones are NaN", i, at)
			}
			own.add(-float64(p[token]))
			if reference != nil {
				kl := divergence(rows[at], p)
				div.KL += kl
				div.KLMax = max(div.KLMax, kl)
				if largest(rows[at]) == largest(p) {
					same++
				}
			}
			at++
			return nil
		})
		if err != nil {
			return nil, err
		}
		progress(i+1, math.Exp(own.nll/float64(own.n)))
	}
	r := own.result(len(windows))
	r.Speed = m.Speed()
	if reference != nil {
		div.KL /= float64(own.n)
		div.Top1 = float64(same) / float64(own.n)
		div.Perplexity = math.Exp(theirs.nll / float64(theirs.n))
		r.Against = div
	}
	return r, nil
}

// result is perplexity with its standard error: that of the mean loss, times the perplexity.
func (s *sums) result(windows int) *Result {
	mean := s.nll / float64(s.n)
	r := &Result{Windows: windows, Tokens: s.n, NLL: mean, Perplexity: math.Exp(mean)}
	if s.n > 1 {
		r.StdErr = math.Sqrt(max(0, s.square/float64(s.n)-mean*mean)/float64(s.n-1)) * r.Perplexity
	}
	return r
}

// logSoftmax is the logarithms of the probabilities that logits stand for.
func logSoftmax(dst, logits []float32) {
	top := math.Inf(-1)
	for _, x := range logits {
		top = max(top, float64(x))
	}
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - top)
	}
	log := top + math.Log(sum)
	for i, x := range logits {
		dst[i] = float32(float64(x) - log)
	}
}

// divergence is Σ p·log(p/q) of log probabilities.
func divergence(p, q []float32) (kl float64) {
	for i := range p {
		if prob := math.Exp(float64(p[i])); prob > 0 {
			kl += prob * (float64(p[i]) - float64(q[i]))
		}
	}
	return max(kl, 0)
}

// largest is the first of the largest.
func largest(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}
