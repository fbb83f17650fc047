package ridge

import (
	"fmt"
	"sync"

	"github.com/ridge-llm/ridge/engine/sample"
)

// Breakers are sequences of tokens that end repetitions for Sampling.DryBreakers; see Model.Breakers.
type Breakers = sample.Breakers

// DefaultBreakers are the texts that end repetitions where a request names none: llama.cpp's.
func DefaultBreakers() []string { return []string{"\n", ":", `"`, "*"} }

// The most that a text of Model.Breakers may have, in bytes, and how many there may be.
const (
	maxBreaker     = 40 // llama.cpp's
	maxBreakers    = 64
	maxBreakerTail = 20 // tokens, llama.cpp's
)

// breakerTokens are the sequences of tokens in which texts begin, those that were asked for last.
type breakerTokens struct {
	mu  sync.Mutex
	all map[string][][]int32
}

// Breakers are texts that end repetitions, for Sampling.DryBreakers. The vocabulary is searched for each text when it is first asked for.
func (m *Model) Breakers(texts []string) (*Breakers, error) {
	if len(texts) > maxBreakers {
		return nil, &Error{Kind: ErrInvalidRequest, Reason: fmt.Sprintf("there are %d dry_sequence_breakers; %d are possible", len(texts), maxBreakers)}
	}
	var all [][]int32
	for _, text := range texts {
		if text == "" || len(text) > maxBreaker {
			return nil, &Error{Kind: ErrInvalidRequest, Reason: fmt.Sprintf("dry_sequence_breakers has a text of %d bytes; 1 to %d are possible", len(text), maxBreaker)}
		}
		sequences, err := m.breakers.of(m, text)
		if err != nil {
			return nil, err
		}
		all = append(all, sequences...)
	}
	return sample.NewBreakers(all), nil
}

// of is the sequences in which a text begins.
func (b *breakerTokens) of(m *Model, text string) ([][]int32, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if all, known := b.all[text]; known {
		return all, nil
	}
	all, err := m.tokenizer.Overlaps(text, maxBreakerTail)
	if err != nil {
		return nil, fmt.Errorf("ridge: %w", err)
	}
	if b.all == nil || len(b.all) >= maxBreakers {
		b.all = map[string][][]int32{}
	}
	b.all[text] = all
	return all, nil
}
