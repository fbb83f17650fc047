package ridge

import (
	"context"
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/tokenizer"
)

// Pair is two texts put together for a model that compares them.
type Pair struct {
	tokenizer.Pair
	Cut int // tokens of the second text left out, because there was no room; of a text many times as long as the context, some of them
}

// Compares reports whether the model was trained to score pairs of texts, as rerankers are.
func (m *Model) Compares() bool { return m.head != nil && m.head.Labels == 1 }

// EncodePair puts a query and a document together, in at most limit tokens (0: what the context holds): the end of the
// document is left out if need be.
func (m *Model) EncodePair(query, document string, limit int) (Pair, error) {
	if limit <= 0 || limit > m.context {
		limit = m.context
	}
	p, err := m.tokenizer.EncodePair(query, document, countedContexts*limit)
	if err != nil {
		return Pair{}, err
	}
	over := len(p.IDs) - limit
	if over <= 0 {
		return Pair{Pair: p}, nil
	}
	if over >= p.End-p.Begin {
		return Pair{}, &Error{Kind: ErrContextLength, Reason: fmt.Sprintf("the query leaves no room for a document: %d tokens or more without any, of %d possible", len(p.IDs)-(p.End-p.Begin), limit)}
	}
	p.IDs = append(p.IDs[:p.End-over], p.IDs[p.End:]...)
	p.End -= over
	return Pair{Pair: p, Cut: over}, nil
}

// Score is how well the second text of a pair answers the first, by a model that Compares: between 0 and 1, or any number
// if the model's files say so. Of p, Priority counts.
func (m *Model) Score(ctx context.Context, pair Pair, p Params) (float64, error) {
	if !m.Compares() {
		return 0, invalidRequest("the model was not trained to compare texts: it has no classifier of one label")
	}
	first := &pooling{vector: make([]float64, m.width), how: PoolCLS}
	r := engine.Request{Prompt: pair.IDs, Priority: p.Priority}
	if m.segments > 1 {
		r.Second = pair.Begin
	}
	if _, err := m.pool(ctx, first, r, p.Adapters); err != nil {
		return 0, err
	}
	hidden := make([]float32, len(first.vector))
	for i, x := range first.vector {
		hidden[i] = float32(x)
	}
	score := float64(m.head.Score(hidden)[0])
	if m.head.Sigmoid {
		score = 1 / (1 + math.Exp(-score))
	}
	return score, nil
}

// readHead reads what the model makes of hidden states: of pairs, if it was trained for them, and of embeddings.
func (m *Model) readHead() (err error) {
	if m.dense, err = m.dir.Dense(); err != nil {
		return err
	}
	if !m.Encoder() {
		return nil
	}
	if types, ok := m.dir.Model.Lookup("token_types.weight"); ok {
		m.segments = types.Rows
	}
	m.head, err = m.dir.Head()
	return err
}
