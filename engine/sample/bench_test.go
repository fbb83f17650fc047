package sample

import (
	"math/rand/v2"
	"testing"
)

// row is a row of logits shaped like a language model's: mostly noise, a few likely tokens.
func row(vocab int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(r.NormFloat64()*2.5 - 2)
	}
	for range 30 {
		logits[r.IntN(vocab)] = float32(8 + 8*r.Float64())
	}
	return logits
}

// BenchmarkSample is one token of a 128k vocabulary (Llama 3's), on one core.
func BenchmarkSample(b *testing.B) {
	logits := row(128256, 1)
	for _, setting := range settings {
		b.Run(setting.name, func(b *testing.B) {
			st, err := NewState(setting.params(), len(logits), []int32{1, 2, 3, 4, 5})
			if err != nil {
				b.Fatal(err)
			}
			var s Sampler
			b.ReportAllocs()
			for b.Loop() {
				choice, err := s.Sample(logits, st, nil)
				if err != nil {
					b.Fatal(err)
				}
				st.Observe(choice.Token)
			}
		})
	}
}

// settings are the usual ways to sample.
var settings = []setting{

	{"greedy", func(p *Params) { p.Temperature = 0 }},
	{"temperature", func(p *Params) {}},
	{"top-p", func(p *Params) { p.TopP = 0.9 }},
	{"top-k", func(p *Params) { p.TopK = 40 }},
	{"min-p", func(p *Params) { p.MinP = 0.05 }},
	{"llama.cpp", func(p *Params) { p.Temperature, p.TopK, p.TopP, p.MinP = 0.8, 40, 0.95, 0.05 }},
	{"typical", func(p *Params) { p.TypicalP = 0.9 }},
	{"hot", func(p *Params) { p.Temperature, p.TopP = 50, 0.9 }},
	{"penalties", func(p *Params) { p.RepetitionPenalty, p.PresencePenalty, p.Temperature = 1.1, 0.5, 0 }},
	{"logprobs", func(p *Params) { p.Logprobs, p.TopLogprobs, p.TopK = true, 5, 40 }},
}

func (s *setting) params() Params {
	p := Default()
	s.change(&p)
	return p
}

type setting struct {
	name   string
	change func(*Params)
}
