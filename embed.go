package ridge

import (
	"context"
	"math"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/internal/modeldir"
)

// Embedding is a text as a direction: the model's last hidden states, pooled as the model's files or Options.Pooling say, and
// normalised.
type Embedding struct {
	Vector []float32 // [Width], of length 1 (L2)
	Tokens int       // of the text
	Cached int       // of them, found in the cache
}

// Embed turns a text into a vector. The tokens that the model expects around a text are added. Similar texts have a large
// dot product in so far as the model was trained for it.
func (m *Model) Embed(ctx context.Context, text string) (Embedding, error) {
	ids, err := m.EncodeInput(text, true)
	if err != nil {
		return Embedding{}, err
	}
	return m.EmbedTokens(ctx, ids, Greedy())
}

// EmbedTokens is Embed for a text that is given as token ids. Of p, Priority, Adapters, Salt and Tenant count.
func (m *Model) EmbedTokens(ctx context.Context, ids []int32, p Params) (Embedding, error) {
	pool := &pooling{vector: make([]float64, m.width), how: m.pooling}
	f, err := m.pool(ctx, pool, engine.Request{Prompt: ids, Priority: p.Priority, Salt: m.salt(&p), Shown: m.shown(&p)}, p.Adapters)
	if err != nil {
		return Embedding{}, err
	}
	return Embedding{Vector: m.vector(pool), Tokens: len(ids), Cached: f.Cached}, nil
}

// pool computes a request's prompt and has its hidden states pooled.
func (m *Model) pool(ctx context.Context, to *pooling, r engine.Request, adapters []UseAdapter) (engine.Final, error) {
	ended := make(chan engine.Final, 1)
	r.Params, r.Hidden, r.Done = Greedy().Sampling, to.take, func(f engine.Final) { ended <- f }
	if err := m.adapters.attach(&r, adapters); err != nil {
		return engine.Final{}, err
	}
	if err := m.submit(ctx, r); err != nil {
		return engine.Final{}, err
	}
	f := <-ended
	return f, public(f.Err)
}

// Encoder reports whether the model makes embeddings alone and generates no text.
func (m *Model) Encoder() bool { return m.dir.Model.Config.Encoder }

// pooling is how an embedding is made of hidden states: as asked, as the model's files say, or as its kind does.
func (o Options) pooling(b *modeldir.Dir) (string, error) {
	if o.Pooling != "" {
		return o.Pooling, nil
	}
	how, err := b.Pooling()
	switch {
	case err != nil || how != "":
		return how, err
	case b.Model.Config.Encoder:
		return PoolMean, nil
	}
	return PoolLast, nil
}

// vector is an embedding of what was pooled: the last of the layers behind that, of a model with any, made to length 1.
func (m *Model) vector(p *pooling) []float32 {
	if len(m.dense) == 0 {
		return unit(p.vector)
	}
	x := p.mean()
	for i := range m.dense {
		x = m.dense[i].Of(x)
	}
	last := make([]float64, len(x))
	for i, v := range x {
		last[i] = float64(v)
	}
	return unit(last)
}

// Width is how many numbers an embedding has; 0 when the model makes none.
func (m *Model) Width() int {
	if n := len(m.dense); n > 0 {
		return m.dense[n-1].Out()
	}
	return m.width
}

// pooling makes one vector of the hidden states of a text's tokens.
type pooling struct {
	vector []float64 // the sum of all, the first alone, or the last
	how    string    // one of the Pool constants
	seen   int       // tokens
}

// take adds the rows of tokens from position from on. Those that a preemption made come again are left out.
func (p *pooling) take(from int, rows []float32) {
	width := len(p.vector)
	for n := 0; n*width < len(rows); n++ {
		if from+n < p.seen || p.how == PoolCLS && p.seen > 0 {
			continue
		}
		if p.how == PoolLast {
			clear(p.vector)
		}
		for i, x := range rows[n*width : (n+1)*width] {
			p.vector[i] += float64(x)
		}
		p.seen = from + n + 1
	}
}

// mean is what was pooled, of a sum of several the mean.
func (p *pooling) mean() []float32 {
	of := 1.0
	if p.how == PoolMean {
		of = float64(max(p.seen, 1))
	}
	x := make([]float32, len(p.vector))
	for i, v := range p.vector {
		x[i] = float32(v / of)
	}
	return x
}

// unit is a vector made to length 1: a mean's direction is the sum's.
func unit(vector []float64) []float32 {
	var square float64
	for _, x := range vector {
		square += x * x
	}
	unit := make([]float32, len(vector))
	if square == 0 {
		return unit
	}
	for i, x := range vector {
		unit[i] = float32(x / math.Sqrt(square))
	}
	return unit
}
