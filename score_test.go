package ridge_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/internal/testkit"
)

// TestScore: cross-encoders say what internal/testkit/testdata/crossencoder.py computed from the definitions alone, in any
// batch. BERT's tell the two texts apart, XLM-RoBERTa's do not.
func TestScore(t *testing.T) {
	data, err := os.ReadFile("internal/testkit/testdata/crossencoder.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string][]struct {
		Query     string
		Documents []string
		Logits    []float64
	}
	if err := json.Unmarshal(data, &want); err != nil || len(want) != 3 {
		t.Fatalf("%d models, %v", len(want), err)
	}
	delete(want, "NomicBertModel") // which TestNomic looks at
	ctx := context.Background()
	for architecture, cases := range want {
		dir := t.TempDir()
		if err := testkit.WriteEncoder(dir, architecture); err != nil {
			t.Fatal(err)
		}
		for backend, o := range map[string]ridge.Options{"ref": {Backend: "ref", Cache: "f32"}, "cpu": {}, "GGUF": {}} {
			path := dir
			if backend == "GGUF" {
				if architecture != "BertForSequenceClassification" {
					continue // RoBERTa's positions cannot be written as GGUF, which is another test's
				}
				path = filepath.Join(t.TempDir(), "cross.gguf")
				if _, err := convert.Convert(ctx, dir, path, convert.Options{}); err != nil {
					t.Fatal(err)
				}
			}
			m := loadEncoder(t, path, o)
			if !m.Compares() {
				t.Fatalf("%s does not say that it compares texts", architecture)
			}
			tolerance := 2e-3 // cached keys and values are in F16
			if backend == "ref" {
				tolerance = 1e-5
			}
			var together sync.WaitGroup
			for _, c := range cases {
				for i, document := range c.Documents {
					together.Go(func() {
						pair, err := m.EncodePair(c.Query, document, 0)
						if err != nil {
							t.Error(err)
							return
						}
						got, err := m.Score(ctx, pair, ridge.Greedy())
						if wanted := 1 / (1 + math.Exp(-c.Logits[i])); err != nil || math.Abs(got-wanted) > tolerance {
							t.Errorf("%s, %s: %q on %q: %g %v, not %g", architecture, backend, c.Query, document, got, err, wanted)
						}
					})
				}
			}
			together.Wait()
		}
	}
}

// TestScoreEdges: long documents are cut, a query that leaves no room and models that compare nothing are refused, and
// scores are left as they are where the files say so.
func TestScoreEdges(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	if err := testkit.WriteEncoder(dir, "BertForSequenceClassification"); err != nil {
		t.Fatal(err)
	}
	m := loadEncoder(t, dir, ridge.Options{})
	long := strings.Repeat("fox ", 100)
	pair, err := m.EncodePair("the wood", long, 0)
	if err != nil || len(pair.IDs) != testkit.EncoderContext || pair.Cut != 100-(testkit.EncoderContext-5) || pair.IDs[len(pair.IDs)-1] != pair.IDs[pair.Begin-1] {
		t.Errorf("%+v %v", pair, err)
	}
	sigmoid, err := m.Score(ctx, pair, ridge.Greedy())
	if err != nil {
		t.Error(err)
	}
	if pair, err = m.EncodePair("the wood", long, 7); err != nil || len(pair.IDs) != 7 {
		t.Errorf("%+v %v", pair, err)
	}
	if _, err = m.EncodePair(long, "fox", 0); err == nil || !strings.Contains(err.Error(), "the query leaves no room") {
		t.Error(err)
	}
	config, err := os.ReadFile(dir + "/config.json")
	if err != nil {
		t.Fatal(err)
	}
	identity := strings.Replace(string(config), "{", `{"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}, `, 1)
	if err := os.WriteFile(dir+"/config.json", []byte(identity), 0o644); err != nil {
		t.Fatal(err)
	}
	raw := loadEncoder(t, dir, ridge.Options{})
	if pair, err = raw.EncodePair("the wood", long, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := raw.Score(ctx, pair, ridge.Greedy()); err != nil || math.Abs(1/(1+math.Exp(-got))-sigmoid) > 1e-4 {
		t.Errorf("without sigmoid %g %v, with it %g", got, err, sigmoid)
	}
	strange := strings.Replace(string(config), "{", `{"sbert_ce_default_activation_function": "torch.nn.Softplus", `, 1)
	if err := os.WriteFile(dir+"/config.json", []byte(strange), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ridge.Load(dir, ridge.Options{}); err == nil || !strings.Contains(err.Error(), "torch.nn.Softplus") {
		t.Error(err)
	}
	plain := loadEncoder(t, encoderDir(t), ridge.Options{})
	if _, err := plain.Score(ctx, pair, ridge.Greedy()); plain.Compares() || err == nil || !strings.Contains(err.Error(), "not trained to compare") {
		t.Error(err)
	}
}
