package quantize

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/quantize/dense"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/recipe"
	"github.com/ridge-llm/ridge/weights/safetensors"
)

// width is the columns of the small model's matrices, ffn those of its feed-forward blocks.
const width, ffn, layers = 64, 96, 2

// small is a model with random weights of correlated columns: a Llama of 2 layers.
func small(t *testing.T) string { return smallOf(t, 0) }

// smallOf is small, or with experts in place of its feed-forward blocks a Mixtral.
func smallOf(t *testing.T, experts int) string {
	t.Helper()
	dir := t.TempDir()
	kind := `"architectures": ["LlamaForCausalLM"], "model_type": "llama"`
	if experts > 0 {
		kind = fmt.Sprintf(`"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": %d, "num_experts_per_tok": 2`, experts)
	}
	config := fmt.Sprintf(`{%s, "hidden_size": %d, "intermediate_size": %d, "num_hidden_layers": %d,
"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 96, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000,
"hidden_act": "silu", "tie_word_embeddings": true, "torch_dtype": "float32"}`, kind, width, ffn, layers)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	var list []safetensors.Output
	add := func(name string, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		x := make([]float32, n)
		for i := range n {
			v := rng.NormFloat64() / 8
			if len(shape) == 1 { // a norm: some columns are much larger than others
				v = math.Exp(rng.NormFloat64())
			}
			x[i] = float32(v)
		}
		list = append(list, output(name, "F32", shape, quant.FromFloats(x, 1, n).Data))
	}
	add("model.embed_tokens.weight", 96, width)
	add("model.norm.weight", width)
	for i := range layers {
		l := fmt.Sprintf("model.layers.%d.", i)
		add(l+"input_layernorm.weight", width)
		add(l+"post_attention_layernorm.weight", width)
		add(l+"self_attn.q_proj.weight", width, width)
		add(l+"self_attn.k_proj.weight", width/2, width)
		add(l+"self_attn.v_proj.weight", width/2, width)
		add(l+"self_attn.o_proj.weight", width, width)
		if experts > 0 {
			add(l+"block_sparse_moe.gate.weight", experts, width)
		}
		for e := range experts {
			x := fmt.Sprintf("%sblock_sparse_moe.experts.%d.", l, e)
			add(x+"w1.weight", ffn, width)
			add(x+"w3.weight", ffn, width)
			add(x+"w2.weight", width, ffn)
		}
		if experts > 0 {
			continue
		}
		add(l+"mlp.gate_proj.weight", ffn, width)
		add(l+"mlp.up_proj.weight", ffn, width)
		add(l+"mlp.down_proj.weight", width, ffn)
	}
	err := weights.WriteFile(filepath.Join(dir, "model.safetensors"), func(w io.Writer) error { return safetensors.Write(w, nil, list) })
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, path string) *modeldir.Dir {
	t.Helper()
	dir, err := modeldir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir
}

// someTokens is a calibration text of random tokens.
func someTokens(dir *modeldir.Dir, n, length int) [][]int32 {
	rng := rand.New(rand.NewPCG(1, 2))
	seqs := make([][]int32, n)
	for i := range seqs {
		for range length + i%3 {
			seqs[i] = append(seqs[i], rng.Int32N(int32(dir.Model.Config.Vocab)))
		}
	}
	return seqs
}

// randomMatrix has numbers of correlated columns to be multiplied with it, as stats.
func randomMatrix(e *dense.Engine, rows, cols int) ([]float32, *stats) {
	rng := rand.New(rand.NewPCG(3, uint64(cols)))
	w := make([]float32, rows*cols)
	for i := range w {
		w[i] = float32(rng.NormFloat64())
	}
	s := newStats(cols, dense.Float32)
	x := make([]float32, 4*cols*cols)
	for r := range 4 * cols {
		last := 0.0
		for c := range cols {
			last = 0.7*last + rng.NormFloat64()
			x[r*cols+c] = float32(last * (1 + float64(c%7)))
		}
	}
	s.add(e, x, 1)
	return w, s
}

// TestMethods: by the error that they minimise the methods are better than rounding to nearest, at all grids.
func TestMethods(t *testing.T) {
	e, err := dense.New()
	if err != nil {
		t.Fatal(err)
	}
	const rows, cols = 24, 192
	w, s := randomMatrix(e, rows, cols)
	q := &job{engine: e}
	for _, g := range []Grid{{4, 32, true}, {3, 64, false}, {2, 0, false}, {8, 0, true}} {
		plain := q.errorOf(nearest(g, w, rows, cols, false, nil), w, s)
		for _, o := range []GPTQ{{Order: InPlace}, {Order: Static}, {Order: Full}, {Order: Static, Clip: true}} {
			m, err := o.quantise(e, g, w, rows, cols, s)
			if err != nil {
				t.Fatal(err)
			}
			if loss := q.errorOf(m, w, s); loss > 0.8*plain {
				t.Errorf("%+v, %+v: the error is %g, and %g to nearest", g, o, loss, plain)
			}
		}
		o := Options{Grid: g}
		m, err := o.autoRound(e, w, rows, cols, s)
		if err != nil {
			t.Fatal(err)
		}
		if loss := q.errorOf(m, w, s); loss > 0.8*plain {
			t.Errorf("%+v, autoround: the error is %g, and %g to nearest", g, loss, plain)
		}
		// Ranges chosen row by row are better than those chosen number by number, where there is something to choose.
		if g.Bits == 8 {
			continue
		}
		alone := q.errorOf(nearest(g, w, rows, cols, true, s.diagonal()), w, s)
		if loss := q.errorOf(clipped(e, g, w, rows, cols, s), w, s); loss > 0.95*alone {
			t.Errorf("%+v, ranges by rows: the error is %g, and %g by numbers", g, loss, alone)
		}
	}
}

// tensors are packed tensors as a file has them.
type tensors map[string]recipe.Raw

func (f tensors) Tensor(name string) (quant.Tensor, bool) { return quant.Tensor{}, false }

func (f tensors) Bytes(name string) (recipe.Raw, bool) { r, ok := f[name]; return r, ok }

// TestPacked: every layout, read as Ridge reads checkpoints of others, is the matrix.
func TestPacked(t *testing.T) {
	e, err := dense.New()
	if err != nil {
		t.Fatal(err)
	}
	const rows, cols = 64, 128
	w, s := randomMatrix(e, rows, cols)
	for _, bits := range []int{2, 3, 4, 5, 6, 7, 8} {
		for _, g := range []Grid{{bits, 32, true}, {bits, 64, false}, {bits, 0, true}} {
			for _, order := range []Order{Static, Full} {
				m, err := GPTQ{Order: order}.quantise(e, g, w, rows, cols, s)
				if err != nil {
					t.Fatal(err)
				}
				want := m.numbers()
				for _, l := range []Layout{LayoutGPTQ, LayoutAWQ, LayoutPacked} {
					o := Options{Method: MethodGPTQ, Grid: g, GPTQ: GPTQ{Order: order}, Layout: l}
					if o.check() != nil || l == LayoutAWQ && g.Symmetric {
						continue
					}
					files := tensors{}
					for _, p := range m.packed(l) {
						files["m"+p.suffix] = recipe.Raw{DType: p.dtype, Shape: p.shape, Data: p.data}
					}
					r, ok := recipe.Packed(files, "m.weight", recipe.Layout{ZeroPlusOne: g.Symmetric})
					if !ok {
						t.Fatalf("%+v, %s: nothing is found", g, l)
					}
					x, err := recipe.Open(r, files)
					if err != nil {
						t.Fatalf("%+v, %s: %v", g, l, err)
					}
					parts, err := x.Parts(1)
					if err != nil {
						t.Fatal(err)
					}
					got := make([]float32, cols)
					for row := range rows {
						quant.Decode(parts[0].Format, got, parts[0].Row(row))
						for c, v := range got {
							if v != want[row*cols+c] {
								t.Fatalf("%+v, %s, order %s: number %d of row %d is %g, want %g", g, l, order, c, row, v, want[row*cols+c])
							}
						}
					}
				}
				if order == Full || bits > 5 && !g.Symmetric {
					continue
				}
				b := m.blocks()
				got := make([]float32, cols)
				for row := range rows {
					quant.Decode(b.Format, got, b.Row(row))
					for c, v := range got {
						if d := math.Abs(float64(v - want[row*cols+c])); d > 4e-3*float64(m.steps[row*m.groups()].scale)*16 {
							t.Fatalf("%+v, %s: number %d of row %d is %g, want %g", g, b.Format, c, row, v, want[row*cols+c])
						}
					}
				}
			}
		}
	}
}

// quantised runs a method on the small model, and opens what it has made.
func quantised(t *testing.T, out string, o Options) (*modeldir.Dir, *Result) {
	t.Helper()
	dir := open(t, small(t))
	r, err := Run(t.Context(), dir, someTokens(dir, 5, 24), out, o)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, out), r
}

// TestHead: the matrix that makes the logits is rounded over what the rounded layers make, and read back from the directory, tied to the embeddings
// before or not; these stay.
func TestHead(t *testing.T) {
	for _, o := range []Options{
		{Method: MethodGPTQ, Grid: Grid{8, 32, true}, Head: true},
		{Method: MethodGPTQ, Grid: Grid{4, 32, true}, Head: true, Layout: LayoutPacked},
		{Method: RTN, Grid: Grid{4, 32, false}, Head: true},
	} {
		out := filepath.Join(t.TempDir(), "out")
		dir, r := quantised(t, out, o)
		last := r.Layers[len(r.Layers)-1]
		if len(r.Layers) != 7*layers+1 || last.Tensor != tiedTable || !(last.After > 0) || last.After > 1.001*last.Before {
			t.Errorf("%+v: %d tensors, the last %+v", o, len(r.Layers), last)
		}
		if dir.Model.Config.Tied {
			t.Errorf("%+v: embeddings are tied", o)
		}
		g, err := dir.Model.Graph(model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		head := g.Output.From.Weights[0]
		if head.Format.Block() == 1 {
			t.Errorf("%+v: the head is in %s", o, head.Format)
		}
		before, _ := open(t, small(t)).Tensor(tiedTable)
		if after, ok := dir.Tensor(tiedTable); !ok || !slices.Equal(after.Floats(), before.Floats()) {
			t.Errorf("%+v: the embeddings have changed", o)
		}
		tolerance := map[int]float64{8: 0.03, 4: 0.4}[o.Grid.Bits]
		if off := relative(firstLogits(t, dir), firstLogits(t, open(t, small(t)))); !(off < tolerance) {
			t.Errorf("%+v: logits are off by %g of the largest", o, off)
		}
	}
}

// TestRun: a whole model, to every kind of file; each layer is no worse than to nearest, and the files load.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"gptq", Options{Method: MethodGPTQ, Grid: Grid{4, 32, true}}},
		{"awq", Options{Method: AWQ, Grid: Grid{4, 32, false}}},
		{"smoothquant", Options{Method: SmoothQuant}},
		{"autoround", Options{Method: AutoRound, Grid: Grid{3, 32, false}}},
		{"magnitude", Options{Method: Magnitude}},
		{"wanda", Options{Method: Wanda, Of4: 2}},
		{"sparsegpt", Options{Method: SparseGPT, Of4: 2}},
		{"sparsegpt with 4 bits", Options{Method: SparseGPT, Of4: 2, Grid: Grid{4, 32, true}}},
		{"wanda with 8 bits", Options{Method: Wanda, Grid: Grid{8, 32, false}}},
		{"sparse-24-bitmask", Options{Method: SparseGPT, Of4: 2, Layout: LayoutPacked}},
		{"model.gguf", Options{Method: MethodGPTQ, Grid: Grid{5, 0, true}, Ends: convert.Ends{Embedding: quant.Q8_0}}},
		{"sparse.gguf", Options{Method: Wanda, Of4: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, r := quantised(t, filepath.Join(t.TempDir(), c.name), c.o)
			if len(r.Layers) != 7*dir.Model.Config.Layers {
				t.Errorf("%d tensors are quantised in %d layers", len(r.Layers), dir.Model.Config.Layers)
			}
			before, after := 0.0, 0.0
			for _, l := range r.Layers {
				before, after = before+l.Before, after+l.After
			}
			if c.o.Prunes() {
				halfZero(t, dir, c.o)
			}
			if want := c.o.Ends.Embedding; want != quant.Invalid {
				if m, ok := dir.Tensor("token_embd.weight"); !ok || m.Format != want {
					t.Errorf("the table of embeddings is in %s, and should be in %s", m.Format, want)
				}
			}
			if after > before*1.001 || after <= 0 || math.IsNaN(after) {
				t.Errorf("errors are %g in sum, and %g to nearest", after, before)
			}
		})
	}
}

// halfZero checks that half of a matrix's numbers are zero, of each four if of4 is not 0; more may be if they are rounded.
func halfZero(t *testing.T, dir *modeldir.Dir, o Options) {
	t.Helper()
	const name = "blk.1.ffn_down.weight"
	g, err := dir.Model.Graph(model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(g.Weights, func(w *graph.Weight) bool { return w.Name == name })
	m, err := recipe.Open(g.Weights[at].Recipe, dir)
	if err != nil {
		t.Fatal(err)
	}
	x := quant.Tensor{Format: m.Format, Rows: m.Rows, Cols: m.Cols, Data: m.Read(make([]byte, int64(m.Rows)*m.Format.RowBytes(m.Cols)), 0, m.Rows)}
	w := x.Floats()
	run := len(w)
	if o.Of4 != 0 {
		run = 4
	}
	for i := 0; i < len(w); i += run {
		zeros := 0
		for _, v := range w[i : i+run] {
			if v == 0 {
				zeros++
			}
		}
		if zeros < run/2 || zeros > run/2 && o.Grid.Bits == 0 {
			t.Fatalf("%d of %d numbers are zero from number %d on", zeros, run, i)
		}
	}
}

// TestRefusals: what cannot be done is a sentence that names what is at fault.
func TestRefusals(t *testing.T) {
	dir := open(t, small(t))
	for _, c := range []struct {
		want string
		o    Options
	}{
		{`there is no method "best"`, Options{Method: "best"}},
		{"9 bits; 2 to 8", Options{Method: RTN, Grid: Grid{Bits: 9}}},
		{"groups of 33 numbers", Options{Method: RTN, Grid: Grid{Bits: 4, Group: 33}}},
		{"q_proj.weight has rows of 64 numbers, which groups of 128 do not divide", Options{Method: RTN, Grid: Grid{Bits: 4, Group: 128}}},
		{"3 of 4 numbers", Options{Method: Wanda, Of4: 3}},
		{"sparse-24-bitmask) keeps two of every four", Options{Method: Wanda, Layout: LayoutPacked}},
		{"layout gptq is of numbers of few bits", Options{Method: Wanda, Layout: LayoutGPTQ}},
		{"wanda looks for numbers that are small", Options{Method: Wanda, Rotate: true}},
		{`no layout "marlin"`, Options{Method: RTN, Grid: Grid{Bits: 4}, Layout: "marlin"}},
		{"alpha is 1.5; 0 to 1", Options{Method: SmoothQuant, Alpha: 1.5}},
		{"damping is NaN; 0 to 1", Options{Method: MethodGPTQ, Grid: Grid{Bits: 4}, GPTQ: GPTQ{Damping: math.NaN()}}},
		{"awq is of 4 bits, and 3", Options{Method: AWQ, Grid: Grid{Bits: 3}, Layout: LayoutAWQ}},
		{"(--lm-head) is rounded by rtn, gptq", Options{Method: AWQ, Grid: Grid{Bits: 4, Group: 32}, Head: true}},
		{"without --rotate", Options{Method: RTN, Grid: Grid{Bits: 4, Group: 32}, Head: true, Rotate: true}},
		{`order of columns "best"`, Options{Method: MethodGPTQ, Grid: Grid{Bits: 4}, GPTQ: GPTQ{Order: "best"}}},
	} {
		_, err := Run(t.Context(), dir, someTokens(dir, 1, 8), filepath.Join(t.TempDir(), "out"), c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; it should say %q", err, c.want)
		}
	}
	if _, err := Sequences(dir, Builtin, 1, 1<<20); err == nil || !strings.Contains(err.Error(), "was made for") {
		t.Errorf("a sequence beyond the context: %v", err)
	}
	short := filepath.Join(t.TempDir(), "short.txt")
	if err := os.WriteFile(short, []byte("Too little."), 0o600); err != nil {
		t.Fatal(err)
	}
	demo, err := modeldir.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	defer demo.Close()
	if _, err := Sequences(demo, short, 1, 64); err == nil || !strings.Contains(err.Error(), "short.txt has") {
		t.Errorf("a text shorter than a sequence: %v", err)
	}
	if seqs, err := Sequences(demo, Builtin, 2, 64); err != nil || len(seqs) < 2 {
		t.Errorf("the built-in text: %d sequences, %v", len(seqs), err)
	}
}

// TestConfig: what a checkpoint says of itself.
func TestConfig(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	quantised(t, out, Options{Method: MethodGPTQ, Grid: Grid{4, 32, false}})
	text, err := os.ReadFile(filepath.Join(out, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Q struct {
			Method, Format string
			QuantMethod    string `json:"quant_method"`
			Bits           int
			GroupSize      int    `json:"group_size"`
			Checkpoint     string `json:"checkpoint_format"`
		} `json:"quantization_config"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	if c.Q.QuantMethod != "gptq" || c.Q.Bits != 4 || c.Q.GroupSize != 32 || c.Q.Checkpoint != "gptq_v2" {
		t.Errorf("%+v", c.Q)
	}
}
