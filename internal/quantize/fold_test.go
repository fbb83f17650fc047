package quantize

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/internal/modeldir"
)

// newTestJob is a job on the small model.
func newTestJob(t *testing.T, o Options) *job {
	t.Helper()
	dir := open(t, small(t))
	return jobOf(t, dir, someTokens(dir, 3, 16), o)
}

// jobOf is a job on a model.
func jobOf(t *testing.T, dir *modeldir.Dir, seqs [][]int32, o Options) *job {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	q, err := newJob(dir, dev, seqs, o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// throughLayers is what crosses the last border, with any scales of an input folded in that fold gives.
func throughLayers(t *testing.T, fold func(q *job, b *block)) []float32 {
	t.Helper()
	q := newTestJob(t, Options{Method: AWQ, Grid: Grid{Bits: 4, Group: 32}})
	var last []float32
	for i := range q.blocks {
		b := &q.blocks[i]
		fold(q, b)
		if i+1 == len(q.blocks) {
			break
		}
		if err := q.advance(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		for _, v := range q.runner.values {
			last = v.data
		}
	}
	return slices.Clone(last)
}

// TestFold: scales that are folded into norms, feed-forward blocks and values change nothing but the rounding of sums.
func TestFold(t *testing.T) {
	want := throughLayers(t, func(*job, *block) {})
	rng := rand.New(rand.NewPCG(9, 10))
	folded := 0
	got := throughLayers(t, func(q *job, b *block) {
		for i := range b.inputs {
			in := &b.inputs[i]
			m, ok := q.makerOf(in)
			if !ok {
				t.Errorf("%s takes no scales", in.value.Name)
				continue
			}
			folded++
			s := make([]float32, in.value.Axis.Len())
			for c := range s {
				s[c] = float32(math.Exp(rng.NormFloat64()))
			}
			m.share(s)
			if err := q.fold(in, m, s); err != nil {
				t.Fatal(err)
			}
		}
	})
	if folded != 4*layers {
		t.Errorf("scales are folded into %d inputs, want 4 of each layer", folded)
	}
	size := 0.0
	for _, v := range want {
		size = max(size, math.Abs(float64(v)))
	}
	for i, v := range want {
		if d := math.Abs(float64(got[i] - v)); d > 1e-4*size {
			t.Fatalf("number %d is %g with scales, and %g without", i, got[i], v)
		}
	}
}
