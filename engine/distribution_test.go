package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/engine/draft/draftmodel"
	"github.com/ridge-llm/ridge/engine/sample"
)

// markov is a language: the logits of what follows each token, [vocab][vocab].
type markov [][]float32

func newMarkov(vocab int, scale float64, seed uint64) markov {
	random := rand.New(rand.NewPCG(seed, 4))
	m := make(markov, vocab)
	for i := range m {
		for range vocab {
			m[i] = append(m[i], float32(scale*random.NormFloat64()))
		}
	}
	return m
}

// chance is the probability that b follows a.
func (m markov) chance(a, b int) float64 {
	sum := 0.0
	for _, x := range m[a] {
		sum += math.Exp(float64(x))
	}
	return math.Exp(float64(m[a][b])) / sum
}

// markovRunner is a draft model that speaks a language.
type markovRunner struct {
	compile.Runner // nil: what is not below is not called
	lim            backend.Limits
	of             markov
	last           []int32
}

func (r *markovRunner) Limits() backend.Limits { return r.lim }
func (r *markovRunner) HostReads() bool        { return true }
func (r *markovRunner) Vocab() int             { return len(r.of) }
func (r *markovRunner) Ids() int               { return len(r.of) }
func (r *markovRunner) Close()                 {}

func (r *markovRunner) CopyPage(int, int32, int32) error { return nil }

func (r *markovRunner) Run(b *backend.Batch) error {
	r.last = r.last[:0]
	for _, row := range b.LogitsIndices {
		r.last = append(r.last, b.Tokens[row])
	}
	return nil
}

func (r *markovRunner) Rows(_ []float32, n int) (rows []float32, err error) {
	for _, id := range r.last[:n] {
		rows = append(rows, r.of[id]...)
	}
	return rows, nil
}

// randomTrees drafts trees of random tokens.
type randomTrees struct {
	draft.Drafter // nil: what is not below is not called
	random        *rand.Rand
	vocab         int
}

func (d *randomTrees) Propose(seqs []draft.Sequence) error {
	q := &seqs[0]
	q.Draft = draft.Draft{}
	for n := range q.Max {
		q.Draft.Tokens, q.Draft.Parents = append(q.Draft.Tokens, int32(d.random.IntN(d.vocab))), append(q.Draft.Parents, d.random.IntN(n+1)-1)
	}
	return nil
}

func (d *randomTrees) Forget(int64, []int32) {}

// TestDraftersKeepDistribution: what follows each token is distributed as the target has it, by a χ² test of 8,000 draws per drafter (RIDGE_DRAWS: as
// many), whatever the drafter makes of the text before.
func TestDraftersKeepDistribution(t *testing.T) {
	const vocab, length, most = 6, 400, 4
	draws := 8000
	if n, err := strconv.Atoi(os.Getenv("RIDGE_DRAWS")); err == nil {
		draws = n
	}
	target := newMarkov(vocab, 1.5, 1)
	ngram, err := draft.NewNGram(draft.NGramOptions{Min: 1})
	if err != nil {
		t.Fatal(err)
	}
	other := newMarkov(vocab, 1, 2) // thinks alike in part
	for i := range other {
		for j := range other[i] {
			other[i][j] += target[i][j]
		}
	}
	lookahead, err := draft.NewLookahead(draft.LookaheadOptions{Window: 3, NGram: 3, Pool: 3})
	if err != nil {
		t.Fatal(err)
	}
	lim := backend.Limits{Tokens: length + most, Seqs: 1, Logits: 1, PageSize: 16, SeqPages: length/16 + 2, Pages: length/16 + 2}
	small, err := draftmodel.New(&markovRunner{lim: lim, of: other}, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]draft.Drafter{
		"ngram": ngram, "suffix": draft.NewSuffix(), "lookahead": lookahead,
		"draft_model": small,
		"trees":       &randomTrees{random: rand.New(rand.NewPCG(5, 6)), vocab: vocab},
	} {
		t.Run(name, func(t *testing.T) {
			var count [vocab][vocab]float64
			drafted, accepted := 0, 0
			most := most
			if d == lookahead {
				most = 12
			}
			for seed, left := uint64(0), draws; left > 0; seed++ {
				r := startDistribution(t, seed, vocab)
				for len(r.tokens) < length && left > 0 {
					from := len(r.tokens)
					seqs := []draft.Sequence{{ID: int64(seed), Tokens: r.tokens, Max: most, Choose: r.choose}}
					if err := d.Propose(seqs); err != nil {
						t.Fatal(err)
					}
					r.draft = draft.Draft{Tokens: slices.Clone(seqs[0].Draft.Tokens), Parents: slices.Clone(seqs[0].Draft.Parents), Window: seqs[0].Draft.Window}
					s := &fixedRows{hostSampler: hostSampler{samplers: make([]sample.Sampler, 1)}, rows: [][]float32{target[r.tokens[from-1]]}}
					for _, id := range r.draft.Tokens {
						s.rows = append(s.rows, target[id])
					}
					o := &output{request: r, position: from, rows: len(s.rows), sampled: len(s.rows)}
					o.take(s, nil, 0)
					for i := from; i < len(r.tokens); i++ {
						count[r.tokens[i-1]][r.tokens[i]]++
						left--
					}
					if watching, ok := d.(draft.Observer); ok {
						watching.Observe(int64(seed), o.after[:r.draft.Window])
					}
					drafted, accepted = drafted+len(r.draft.Tokens), accepted+o.accepted
				}
				d.Forget(int64(seed), r.tokens)
			}
			chi := 0.0
			for a := range count {
				n := 0.0
				for _, x := range count[a] {
					n += x
				}
				for b, x := range count[a] {
					want := n * target.chance(a, b)
					chi += (x - want) * (x - want) / want
				}
			}
			t.Logf("%s: χ² %.1f of %d draws; %d of %d drafted tokens accepted", name, chi, draws, accepted, drafted)
			if chi > 59.7 { // 30 degrees of freedom: this has a chance of 0.001; the seeds are fixed, and so is the result
				t.Errorf("%s: χ² is %.1f", name, chi)
			}
			if accepted == 0 || accepted == drafted {
				t.Errorf("%s: %d of %d drafted tokens were accepted: this shows little", name, accepted, drafted)
			}
		})
	}
}

// startDistribution is a request whose answer begins with a token.
func startDistribution(t *testing.T, seed uint64, vocab int) *request {
	p := sample.Default()
	p.Seed, p.Temperature = seed, 1
	state, err := sample.NewState(p, vocab, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &request{Request: Request{Emit: func(sample.Choice) bool { return false }}, ctx: context.Background(), sampling: state, tokens: []int32{int32(seed) % int32(vocab)}}
	r.sched.Limit = 1 << 20
	var chooser sample.Sampler
	r.choose = func(logits []float32, drafted []int32) int32 {
		c, err := chooser.Sample(logits, state.After(drafted), nil)
		if err != nil {
			return -1
		}
		return c.Token
	}
	return r
}
