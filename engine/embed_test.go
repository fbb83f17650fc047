package engine_test

import (
	"context"
	"encoding/binary"
	"math"
	"path/filepath"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
)

const embedModel = "../internal/check/testdata/llama-default"

// upstream is what transformers computed: token ids, the logits of all their rows, and the matrix that makes logits of
// hidden states.
func upstream(t *testing.T) (ids []int32, logits, head [][]float32) {
	t.Helper()
	g, err := weights.Open(filepath.Join(embedModel, "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	info, raw, err := g.Raw("input_ids")
	if err != nil {
		t.Fatal(err)
	}
	for i := range info.Shape[1] {
		ids = append(ids, int32(binary.LittleEndian.Uint32(raw[4*i:])))
	}
	w, err := weights.Open(filepath.Join(embedModel, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	rows := func(s *weights.Source, name string, n int) (all [][]float32) {
		m, err := s.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			row := make([]float32, m.Cols)
			quant.Decode(m.Format, row, m.Row(i))
			all = append(all, row)
		}
		return all
	}
	return ids, rows(g, "logits", len(ids)), rows(w, "lm_head.weight", 96)
}

// embedder is an engine that keeps the hidden states of the last token or of all.
func embedder(t *testing.T, dev backend.Device, all bool, lim backend.Limits) *engine.Engine {
	t.Helper()
	b, err := modeldir.Open(embedModel)
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32, AllHidden: all})
	if err != nil {
		t.Fatal(err)
	}
	prog, err := compile.Compile(g, dev, b, lim)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(prog, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(); dev.Close(); b.Close() })
	return e
}

// TestHidden: times the output matrix, the hidden states that a request gets are the logits that upstream computed, for
// the last token or for every one, in steps that are cut small and shared with answers, found in the cache or not.
func TestHidden(t *testing.T) {
	ids, logits, head := upstream(t)
	fast := func() backend.Device {
		dev, err := cpu.New(cpu.Options{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		return dev
	}
	for name, c := range map[string]struct {
		dev backend.Device
		all bool
	}{"cpu last": {fast(), false}, "cpu all": {fast(), true}, "ref last": {ref.New(), false}, "ref all": {ref.New(), true}} {
		t.Run(name, func(t *testing.T) {
			e := embedder(t, c.dev, c.all, backend.Limits{Tokens: 20, Seqs: 4, Logits: 4, PageSize: 16, SeqPages: 4, Pages: 16})
			for _, cached := range []int{0, 32} {
				if c.all {
					cached = 0
				}
				company := submit(t, e, context.Background(), request(3, 20, 8))
				seen := 0
				done := submit(t, e, context.Background(), engine.Request{Prompt: ids, Params: greedy(), Hidden: func(from int, rows []float32) {
					width := len(head[0])
					for i := 0; i*width < len(rows); i++ {
						seen++
						compareLogits(t, rows[i*width:(i+1)*width], head, logits[from+i])
					}
				}})
				f := wait(t, done).final
				want := 1
				if c.all {
					want = len(ids)
				}
				if f.Err != nil || f.Cached != cached || f.Output != 0 || seen != want {
					t.Errorf("%+v after %d rows; there should be %d rows and %d tokens cached", f, seen, want, cached)
				}
				if r := wait(t, company); len(r.tokens) != 8 {
					t.Errorf("the request beside it ended with %d tokens, %v", len(r.tokens), r.final.Err)
				}
			}
		})
	}
}

func compareLogits(t *testing.T, hidden []float32, head [][]float32, want []float32) {
	t.Helper()
	for id, row := range head {
		var sum float64
		for i, x := range hidden {
			sum += float64(x) * float64(row[i])
		}
		if diff := math.Abs(sum - float64(want[id])); diff > 1e-4 {
			t.Fatalf("logit %d of the hidden states is %g, upstream's %g", id, sum, want[id])
		}
	}
}

// TestHiddenRefused: too long a text is refused with the numbers, and one that just fits is not.
func TestHiddenRefused(t *testing.T) {
	e := start(t, backend.Limits{Tokens: 32, Seqs: 2, Logits: 2, PageSize: 16, SeqPages: 2, Pages: 8})
	r := engine.Request{Prompt: prompt(1, 33), Params: greedy(), Hidden: func(int, []float32) {}, Done: func(engine.Final) {}}
	if err := e.Submit(context.Background(), r); err == nil || err.Error() != "engine: the text has 33 tokens and the context is 32; shorten the text or load the model with a larger context" {
		t.Error(err)
	}
	r.Prompt = prompt(1, 32)
	if f := wait(t, submit(t, e, context.Background(), r)).final; f.Err != nil {
		t.Error(f.Err)
	}
	r.Hidden = func(int, []float32) { panic("of the owner's") }
	if f := wait(t, submit(t, e, context.Background(), r)).final; f.Err == nil {
		t.Error("a panic of the owner's went unnoticed")
	}
}
