package ridge_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge"
)

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// TestEmbed: vectors have length 1, are the reference backend's up to what quantised inputs cost, do not depend on how the
// text is cut into steps or on other requests in them, and are nearer for texts that are alike.
func TestEmbed(t *testing.T) {
	ctx := context.Background()
	texts := []string{"The fox ran into the forest to look for his friend.", "The fox went into the woods to find his friend.", "A page of the KV cache holds sixteen tokens."}
	for _, pooling := range []string{ridge.PoolLast, ridge.PoolMean} {
		m := load(t, ridge.Options{Pooling: pooling})
		ref := m // the reference is plain Go: under the race detector it takes a minute
		if !testing.Short() {
			ref = load(t, ridge.Options{Pooling: pooling, Backend: "ref"})
		}
		small := ridge.Options{Pooling: pooling}
		small.StepTokens = 24
		cut := load(t, small)
		var all [][]float32
		for _, text := range texts {
			e, err := m.Embed(ctx, text)
			if err != nil {
				t.Fatal(err)
			}
			want, err := ref.Embed(ctx, text)
			if err != nil {
				t.Fatal(err)
			}
			if len(e.Vector) != m.Width() || math.Abs(dot(e.Vector, e.Vector)-1) > 1e-6 || dot(e.Vector, want.Vector) < 0.9995 {
				t.Errorf("%s: %d numbers of square %g, cosine to the reference %g", pooling, len(e.Vector), dot(e.Vector, e.Vector), dot(e.Vector, want.Vector))
			}
			var together sync.WaitGroup
			for range 3 {
				together.Go(func() {
					if other, err := cut.Embed(ctx, text); err != nil || !slices.Equal(other.Vector, e.Vector) {
						t.Errorf("%s: in small steps and company %q is another vector, %v", pooling, text, err)
					}
				})
			}
			together.Wait()
			all = append(all, e.Vector)
		}
		if near, far := dot(all[0], all[1]), dot(all[0], all[2]); near <= far {
			t.Errorf("%s: %q is at %g from %q and at %g from %q", pooling, texts[0], near, texts[1], far, texts[2])
		}
	}
}

func TestEmbedRefusals(t *testing.T) {
	m := load(t, ridge.Options{Context: 64})
	if _, err := m.Embed(context.Background(), strings.Repeat("word ", 100)); err == nil || !strings.Contains(err.Error(), "the context is 64") {
		t.Error(err)
	}
	if _, err := m.Embed(context.Background(), ""); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Error(err)
	}
	if _, err := ridge.Load("", ridge.Options{Pooling: "max"}); err == nil || !strings.Contains(err.Error(), `Pooling is "max"; last, mean and cls are possible`) {
		t.Error(err)
	}
}
