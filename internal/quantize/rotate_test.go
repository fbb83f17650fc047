package quantize

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/quant"
)

// TestRotate: a rotated model of floats is read back as one that makes the same logits, from a directory and from a GGUF file.
func TestRotate(t *testing.T) {
	t.Run("small", func(t *testing.T) { rotatedLogits(t, open(t, small(t)), 1e-4) })
	for _, name := range []string{"mixtral-window", "llama-mqa-tied-bias", "gemma", "phi3-partial"} { // matrices in BF16, to which they are rounded again
		t.Run(name, func(t *testing.T) { rotatedLogits(t, open(t, filepath.Join("..", "check", "testdata", name)), 0.04) })
	}
}

// rotatedLogits compares a model's logits with those of the rotated model, in files of both kinds.
func rotatedLogits(t *testing.T, dir *modeldir.Dir, tolerance float64) {
	q := jobOf(t, dir, [][]int32{{1, 2}}, Options{Method: RTN, Grid: Grid{Bits: 4}, Rotate: true})
	want := firstLogits(t, q.dir)
	var err error
	if q.rotation, err = q.rotationOf(); err != nil { // without checkTensors: all stay floats
		t.Fatal(err)
	}
	for i := range len(q.blocks) + 1 {
		if err := q.rotateBlock(i); err != nil {
			t.Fatal(err)
		}
	}
	if q.dir.Model.Config.Tied {
		t.Error("the table of embeddings makes the logits of the rotated model")
	}
	folder, file := t.TempDir(), filepath.Join(t.TempDir(), "rotated.gguf")
	if err := q.writeCheckpoint(t.Context(), folder); err != nil {
		t.Fatal(err)
	}
	if _, err := q.writeGGUF(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	dropQuantisation(t, folder)
	for _, path := range []string{folder, file} {
		got := firstLogits(t, open(t, path))
		if off := relative(got, want); !(off <= tolerance) {
			t.Errorf("%s: logits are off by %g of the largest", path, off)
		}
	}
}

// dropQuantisation takes away what config.json says of quantised matrices, of which there are none.
func dropQuantisation(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	delete(c, "quantization_config")
	if text, err = json.Marshal(c); err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// firstLogits is the logits behind some tokens, each alone.
func firstLogits(t *testing.T, dir *modeldir.Dir) (all []float32) {
	t.Helper()
	g, err := dir.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
	if err != nil {
		t.Fatal(err)
	}
	part, err := partOf(g, nil, []*graph.Value{g.Output}, func(w *graph.Weight) quant.Format { return w.Format })
	if err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for id := range int32(9) {
		r := &runner{dev: dev, files: dir, seqs: [][]int32{{7 * id}}}
		if err := r.run(t.Context(), part, func(_, _ int, x []float32) error { all = append(all, x...); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestRotateExactly: what crosses the last border is what the model as it is has there, turned.
func TestRotateExactly(t *testing.T) {
	run := func(rotate bool) (*job, []float32) {
		q := newTestJob(t, Options{Method: RTN, Grid: Grid{Bits: 4, Group: 32}, Rotate: rotate})
		if err := q.checkTensors(); err != nil {
			t.Fatal(err)
		}
		var last []float32
		for i := range q.blocks {
			if err := q.rotateBlock(i); err != nil {
				t.Fatal(err)
			}
			b := q.blocks[i]
			if i+1 == len(q.blocks) {
				b.out = []*graph.Value{q.g.Hidden.From.In[0].From.In[0]}
			}
			if err := q.advance(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			for _, v := range q.runner.values {
				last = v.data
			}
		}
		return q, last
	}
	_, want := run(false)
	q, got := run(true)
	h := q.rotation.turns[0][0].in
	turned, scratch := make([]float64, h.n), make([]float64, h.n)
	size, off := 0.0, 0.0
	for r := 0; r < len(want); r += h.n {
		for i := range turned {
			turned[i] = float64(want[r+i])
		}
		h.turn(turned, scratch)
		for i, v := range turned {
			size, off = max(size, math.Abs(v)), max(off, math.Abs(v-float64(got[r+i])))
		}
	}
	if off > 1e-5*size {
		t.Errorf("numbers of up to %g are off by %g", size, off)
	}
}

// TestRotateRefused: a graph that cannot be turned is refused, with the node that does not let it.
func TestRotateRefused(t *testing.T) {
	for name, want := range map[string]string{
		"gemma2": "blk.0.post_attention_norm", "gpt2-untied": "blk.0.attn_norm (LayerNorm)", "qwen3next-dense": "blk.0.ssm_alpha", "olmo3": "blk.0.post_attention_norm",
	} {
		dir := open(t, filepath.Join("..", "check", "testdata", name))
		_, err := jobOf(t, dir, [][]int32{{1, 2}}, Options{Method: RTN, Grid: Grid{Bits: 4}, Rotate: true}).rotationOf()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; it should say %q", name, err, want)
		}
	}
}
