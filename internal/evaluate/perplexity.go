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

	Speed Speed `json:"speed"` // of this run

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

// sums are a model's losses, of a window or of all.
type sums struct {
	N      int     `json:"n"`
	NLL    float64 `json:"nll"`
	Square float64 `json:"square"`
}

func (s *sums) add(nll float64) {
	s.N++
	s.NLL += nll
	s.Square += nll * nll
}

func (s *sums) join(o sums) {
	s.N += o.N
	s.NLL += o.NLL
	s.Square += o.Square
}

// part is what a window adds to a result.
type part struct {
	Own    sums    `json:"own"`
	Theirs sums    `json:"reference,omitzero"`
	KL     float64 `json:"kl,omitempty"` // summed
	KLMax  float64 `json:"kl_max,omitempty"`
	Same   int     `json:"same,omitempty"` // tokens of which both have the same most likely one
}

// Perplexity computes windows of a text with a model, and with a reference if there is one (else nil). log has the results of an earlier run, or is
// nil. progress is called after each window.
func Perplexity(m, reference *Model, windows []Window, log *Log, progress func(done int, perplexity float64)) (*Result, error) {
	if reference != nil && reference.Vocab() != m.Vocab() {
		return nil, fmt.Errorf("evaluate: the models have vocabularies of %d and %d tokens; only models of the same vocabulary can be compared", m.Vocab(), reference.Vocab())
	}
	var all part
	for i, w := range windows {
		var p part
		found, err := log.found(i, &p)
		if err == nil && !found {
			if p, err = window(m, reference, w); err != nil {
				err = fmt.Errorf("evaluate: window %d: %w", i, err)
			} else {
				err = log.put(i, p)
			}
		}
		if err != nil {
			return nil, err
		}
		all.Own.join(p.Own)
		all.Theirs.join(p.Theirs)
		all.KL, all.KLMax, all.Same = all.KL+p.KL, max(all.KLMax, p.KLMax), all.Same+p.Same
		progress(i+1, math.Exp(all.Own.NLL/float64(all.Own.N)))
	}
	r := all.Own.result(len(windows))
	r.Speed = m.Speed()
	if n := float64(all.Own.N); reference != nil {
		r.Against = &Divergence{Perplexity: math.Exp(all.Theirs.NLL / n), KL: all.KL / n, KLMax: all.KLMax, Top1: float64(all.Same) / n}
	}
	return r, nil
}

// window computes a window with both.
func window(m, reference *Model, w Window) (x part, err error) {
	var rows [][]float32 // of the reference, log probabilities
	if reference != nil {
		err := reference.Logits(w, func(token int32, logits []float32) error {
			p := make([]float32, len(logits))
			logSoftmax(p, logits)
			x.Theirs.add(-float64(p[token]))
			rows = append(rows, p)
			return nil
		})
		if err != nil {
			return x, err
		}
	}
	at := 0
	p := make([]float32, m.Vocab())
	err = m.Logits(w, func(token int32, logits []float32) error {
		logSoftmax(p, logits)
		if v := p[token]; v != v {
			return fmt.Errorf("the logits that predict token %d of the scored ones are NaN", at)
		}
		x.Own.add(-float64(p[token]))
		if reference != nil {
			kl := divergence(rows[at], p)
			x.KL += kl
			x.KLMax = max(x.KLMax, kl)
			if largest(rows[at]) == largest(p) {
				x.Same++
			}
		}
		at++
		return nil
	})
	return x, err
}

// result is perplexity with its standard error: that of the mean loss, times the perplexity.
func (s *sums) result(windows int) *Result {
	mean := s.NLL / float64(s.N)
	r := &Result{Windows: windows, Tokens: s.N, NLL: mean, Perplexity: math.Exp(mean)}
	if s.N > 1 {
		r.StdErr = math.Sqrt(max(0, s.Square/float64(s.N)-mean*mean)/float64(s.N-1)) * r.Perplexity
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
