package ridge_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/internal/testkit"
)

// encoderDir is a small encoder as Hugging Face lays such a model out.
func encoderDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := testkit.WriteEncoder(dir, "BertModel"); err != nil {
		t.Fatal(err)
	}
	return dir
}

func loadEncoder(t *testing.T, path string, o ridge.Options) *ridge.Model {
	t.Helper()
	m, err := ridge.Load(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestEncoder: an encoder's vectors are the reference backend's, from a Hugging Face directory and from the GGUF file made of
// it, in any batch; the mean, the first token's or the last one's, as asked or as the files say.
func TestEncoder(t *testing.T) {
	ctx, dir := context.Background(), encoderDir(t)
	file := filepath.Join(t.TempDir(), "bert.gguf")
	if _, err := convert.Convert(ctx, dir, file, convert.Options{}); err != nil {
		t.Fatal(err)
	}
	texts := []string{"A fox ran into the woods.", "the cache", "page of the cache of a fox ran into the woods of the page . . ."}
	embed := func(m *ridge.Model, text string) []float32 {
		e, err := m.Embed(ctx, text)
		if err != nil {
			t.Fatal(err)
		}
		return e.Vector
	}
	vectors := map[string][]float32{}
	for _, pooling := range []string{ridge.PoolMean, ridge.PoolCLS, ridge.PoolLast} {
		ref := loadEncoder(t, dir, ridge.Options{Backend: "ref", Pooling: pooling, Cache: "f32"})
		for name, m := range map[string]*ridge.Model{
			"directory": loadEncoder(t, dir, ridge.Options{Pooling: pooling}), "GGUF": loadEncoder(t, file, ridge.Options{Pooling: pooling}),
		} {
			var together sync.WaitGroup
			for _, text := range slices.Repeat(texts, 4) {
				together.Go(func() {
					e, err := m.Embed(ctx, text)
					if err != nil {
						t.Error(err)
					} else if cos := dot(e.Vector, embed(ref, text)); math.Abs(cos-1) > 1e-4 {
						t.Errorf("%s, %s: cosine to the reference %g", name, pooling, cos)
					}
				})
			}
			together.Wait()
		}
		vectors[pooling] = embed(ref, texts[0])
	}
	if dot(vectors[ridge.PoolMean], vectors[ridge.PoolCLS]) > 0.999 || dot(vectors[ridge.PoolCLS], vectors[ridge.PoolLast]) > 0.999 {
		t.Error("the ways of pooling give the same vector")
	}
	if got := embed(loadEncoder(t, dir, ridge.Options{Backend: "ref", Cache: "f32"}), texts[0]); !slices.Equal(got, vectors[ridge.PoolMean]) {
		t.Error("without a word in the files an encoder's vector is not the mean")
	}
	if err := os.MkdirAll(filepath.Join(dir, "1_Pooling"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "1_Pooling/config.json"), []byte(`{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := embed(loadEncoder(t, dir, ridge.Options{Backend: "ref", Cache: "f32"}), texts[0]); !slices.Equal(got, vectors[ridge.PoolCLS]) {
		t.Error("1_Pooling/config.json asks for the first token, and the vector is another")
	}
}

// TestEncoderRefusals: no text comes out of an encoder, no text is computed in parts, and a long one is refused with numbers.
func TestEncoderRefusals(t *testing.T) {
	dir := encoderDir(t)
	m := loadEncoder(t, dir, ridge.Options{})
	if !m.Encoder() {
		t.Error("the model does not say that it is an encoder")
	}
	for _, err := range m.Generate(context.Background(), "a fox", ridge.Greedy()) {
		if err == nil || !strings.Contains(err.Error(), "the model is an encoder") {
			t.Errorf("generating gave %v", err)
		}
	}
	if _, err := m.Embed(context.Background(), strings.Repeat("fox ", 60)); err == nil || !strings.Contains(err.Error(), "the text has 62 tokens and the context is 48") {
		t.Errorf("a long text gave %v", err)
	}
	o := ridge.Options{Parallel: 1}
	o.StepTokens = 32
	if small, err := ridge.Load(dir, o); err == nil || !strings.Contains(err.Error(), "are computed in one step") {
		t.Errorf("steps shorter than texts gave %v", err)
		if err == nil {
			small.Close()
		}
	}
}

// TestNomic: an encoder with rotated positions and gates makes the vectors that internal/testkit/testdata/crossencoder.py computed
// from its definition alone, from a Hugging Face directory and from the GGUF file made of it.
func TestNomic(t *testing.T) {
	data, err := os.ReadFile("internal/testkit/testdata/crossencoder.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		NomicBertModel []struct {
			Text   string
			Vector []float32
		}
	}
	if err := json.Unmarshal(data, &want); err != nil || len(want.NomicBertModel) == 0 {
		t.Fatalf("%d texts, %v", len(want.NomicBertModel), err)
	}
	ctx, dir := context.Background(), t.TempDir()
	if err := testkit.WriteEncoder(dir, "NomicBertModel"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "nomic.gguf")
	if _, err := convert.Convert(ctx, dir, file, convert.Options{}); err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*ridge.Model{
		"ref": loadEncoder(t, dir, ridge.Options{Backend: "ref", Cache: "f32"}), "cpu": loadEncoder(t, dir, ridge.Options{}), "GGUF": loadEncoder(t, file, ridge.Options{}),
	} {
		tolerance := 2e-3 // cached keys and values are in F16
		if name == "ref" {
			tolerance = 1e-5
		}
		for _, c := range want.NomicBertModel {
			e, err := m.Embed(ctx, c.Text)
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range e.Vector {
				if math.Abs(float64(x-c.Vector[i])) > tolerance {
					t.Fatalf("%s: number %d of %q is %g, not %g", name, i, c.Text, x, c.Vector[i])
				}
			}
		}
	}
}
