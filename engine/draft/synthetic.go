package draft

import (
	"fmt"
	"math/rand/v2"
)

// NewSynthetic drafts for measurements and simulations, where answers are known beforehand (engine.Request.Forced): each token of a draft is the one that
// comes with a probability of rate, by chance, whatever the model (vLLM calls this synthetic acceptance). Another drafter may be given, which
// is asked for as much and takes its time; what it says is dropped. nil: drafting takes no time. The result owns it.
func NewSynthetic(rate float64, timed Drafter) (Drafter, error) {
	if !(rate >= 0 && rate <= 1) {
		return nil, fmt.Errorf("draft: a synthetic acceptance rate of %g; 0 to 1 is possible", rate)
	}
	return &synthetic{rate: rate, timed: timed}, nil
}

type synthetic struct {
	rate    float64
	timed   Drafter
	drafts  [][]int32 // used again
	chances rand.PCG
}

// Name implements Drafter.
func (d *synthetic) Name() string { return "synthetic" }

// Propose implements Drafter. What is right is the same however often it is asked, since it depends on the sequence and the place alone.
func (d *synthetic) Propose(seqs []Sequence) error {
	if d.timed != nil {
		if err := d.timed.Propose(seqs); err != nil {
			return err
		}
	}
	for i := range seqs {
		if i == len(d.drafts) {
			d.drafts = append(d.drafts, make([]int32, 0, MaxTokens))
		}
		s, tokens := &seqs[i], d.drafts[i][:0]
		for len(tokens) < s.Max {
			id := s.Choose(nil, tokens)
			if id < 0 {
				break // the answer ends
			}
			d.chances.Seed(uint64(s.ID), uint64(len(s.Tokens)+len(tokens)))
			if right := float64(d.chances.Uint64()>>11) / (1 << 53); right >= d.rate {
				id ^= 1
			}
			tokens = append(tokens, id)
		}
		d.drafts[i], s.Draft = tokens, Draft{Tokens: tokens}
	}
	return nil
}

// Concurrent implements Concurrent.
func (d *synthetic) Concurrent() bool {
	if d.timed == nil {
		return true
	}
	c, ok := d.timed.(Concurrent)
	return ok && c.Concurrent()
}

// Seconds implements Drafter.
func (d *synthetic) Seconds(seqs, tokens int) float64 {
	if d.timed == nil {
		return 0
	}
	return d.timed.Seconds(seqs, tokens)
}

// Forget implements Drafter.
func (d *synthetic) Forget(id int64, tokens []int32) {
	if d.timed != nil {
		d.timed.Forget(id, tokens)
	}
}

// Close implements Drafter.
func (d *synthetic) Close() error {
	if d.timed == nil {
		return nil
	}
	return d.timed.Close()
}
