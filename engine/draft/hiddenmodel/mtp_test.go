package hiddenmodel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/quant"
)

// Sizes of the target that the tests draft for, and of its layer.
const (
	hidden, ffn, vocab, heads, kv, size, layers = 24, 40, 50, 4, 2, 6, 2
	theta, eps                                  = 1000.0, 1e-5
)

const config = `{"architectures": ["LlamaForCausalLM"], "hidden_size": 24, "intermediate_size": 40, "vocab_size": 50, "num_attention_heads": 4, "num_key_value_heads": 2,
	"head_dim": 6, "num_hidden_layers": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 1000.0, "hidden_act": "silu"}`

// tensors is a file's.
type tensors map[string]quant.Tensor

func (f tensors) Tensor(name string) (quant.Tensor, bool) { t, ok := f[name]; return t, ok }
func (tensors) Release([]byte)                            {}

// put adds a random tensor; vectors are around 1.
func (f tensors) put(r *rand.Rand, name string, rows, cols int) {
	t := quant.Tensor{Format: quant.F32, Rows: rows, Cols: cols}
	for range rows * cols {
		x := r.NormFloat64() / math.Sqrt(float64(cols))
		if rows == 1 {
			x = 1 + 0.3*r.NormFloat64()
		}
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(float32(x)))
	}
	f[name] = t
}

// row is a row of a tensor.
func (f tensors) row(name string, i int) []float64 {
	t, ok := f[name]
	if !ok {
		panic("no tensor " + name)
	}
	x := make([]float64, t.Cols)
	for j := range x {
		x[j] = float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*(i*t.Cols+j):])))
	}
	return x
}

// times is a matrix times x.
func (f tensors) times(name string, x []float64) []float64 {
	y := make([]float64, f[name].Rows)
	for i := range y {
		y[i] = dot(f.row(name, i), x)
	}
	return y
}

func dot(x, y []float64) (sum float64) {
	if len(x) != len(y) {
		panic(fmt.Sprintf("%d times %d numbers", len(x), len(y)))
	}
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

// norm is RMSNorm by a tensor.
func (f tensors) norm(name string, x []float64) []float64 {
	w, scale := f.row(name, 0), 1/math.Sqrt(dot(x, x)/float64(len(x))+eps)
	y := make([]float64, len(x))
	for i := range x {
		y[i] = x[i] * scale * w[i]
	}
	return y
}

func plus(x, y []float64) []float64 {
	z := make([]float64, len(x))
	for i := range x {
		z[i] = x[i] + y[i]
	}
	return z
}

// rotated is heads rotated by halves at a position.
func rotated(x []float64, position int) []float64 {
	y := make([]float64, len(x))
	for h := 0; h < len(x); h += size {
		for i := range size / 2 {
			s, c := math.Sincos(float64(position) * math.Pow(theta, -2*float64(i)/size))
			a, b := x[h+i], x[h+i+size/2]
			y[h+i], y[h+i+size/2] = a*c-b*s, b*c+a*s
		}
	}
	return y
}

// formula is the layer by plain arithmetic: the last row's logits, and the hidden states that it is gone on from, of inputs at positions of the text.
type formula struct {
	files  tensors
	layer  string // the names of its block begin so
	keys   [][]float64
	values [][]float64
}

// block is a decoder layer: x what attention reads, sum what it is added to.
func (f *formula) block(x, sum []float64, position int) []float64 {
	at := f.layer + ".self_attn."
	q := rotated(f.files.times(at+"q_proj.weight", x), position)
	f.keys = append(f.keys, rotated(f.files.times(at+"k_proj.weight", x), position))
	f.values = append(f.values, f.files.times(at+"v_proj.weight", x))
	var got []float64
	for h := range heads {
		from, group := h*size, h/(heads/kv)*size
		var weights []float64
		total := 0.0
		for _, k := range f.keys {
			w := math.Exp(dot(q[from:from+size], k[group:group+size]) / math.Sqrt(size))
			weights, total = append(weights, w), total+w
		}
		one := make([]float64, size)
		for i, v := range f.values {
			for j := range one {
				one[j] += weights[i] / total * v[group+j]
			}
		}
		got = append(got, one...)
	}
	sum = plus(sum, f.files.times(at+"o_proj.weight", got))
	y := f.files.norm(f.layer+".post_attention_layernorm.weight", sum)
	gate, up := f.files.times(f.layer+".mlp.gate_proj.weight", y), f.files.times(f.layer+".mlp.up_proj.weight", y)
	for i := range gate {
		gate[i] *= up[i] / (1 + math.Exp(-gate[i]))
	}
	return plus(sum, f.files.times(f.layer+".mlp.down_proj.weight", gate))
}

// mtp is a row of an MTP layer as DeepSeek has it.
func (f *formula) mtp(token int32, before []float64, position int) (logits, next []float64) {
	x := append(f.files.norm(f.layer+".enorm.weight", f.files.row("model.embed_tokens.weight", int(token))), f.files.norm(f.layer+".hnorm.weight", before)...)
	x = f.files.times(f.layer+".eh_proj.weight", x)
	next = f.block(f.files.norm(f.layer+".input_layernorm.weight", x), x, position)
	return f.files.times("lm_head.weight", f.files.norm(f.layer+".shared_head.norm.weight", next)), next
}

// putBlock adds a decoder layer whose attention reads rows of some width.
func (f tensors) putBlock(r *rand.Rand, at string, width int) {
	f.put(r, at+".self_attn.q_proj.weight", heads*size, width)
	f.put(r, at+".self_attn.k_proj.weight", kv*size, width)
	f.put(r, at+".self_attn.v_proj.weight", kv*size, width)
	f.put(r, at+".self_attn.o_proj.weight", hidden, heads*size)
	f.put(r, at+".post_attention_layernorm.weight", 1, hidden)
	f.put(r, at+".mlp.gate_proj.weight", ffn, hidden)
	f.put(r, at+".mlp.up_proj.weight", ffn, hidden)
	f.put(r, at+".mlp.down_proj.weight", hidden, ffn)
}

// newTarget is a random model with an MTP layer.
func newTarget(r *rand.Rand) tensors {
	f := tensors{}
	f.put(r, "model.embed_tokens.weight", vocab, hidden)
	f.put(r, "lm_head.weight", vocab, hidden)
	f.put(r, "model.norm.weight", 1, hidden)
	for i := range layers + 1 {
		at := fmt.Sprintf("model.layers.%d", i)
		f.putBlock(r, at, hidden)
		f.put(r, at+".input_layernorm.weight", 1, hidden)
	}
	at := fmt.Sprintf("model.layers.%d", layers)
	f.put(r, at+".eh_proj.weight", hidden, 2*hidden)
	for _, name := range []string{"enorm", "hnorm", "shared_head.norm"} {
		f.put(r, at+"."+name+".weight", 1, hidden)
	}
	return f
}

// rig is a target that computes steps by hand, and what reads its hidden states to the host for the formula.
type rig struct {
	t      *testing.T
	target *compile.Program
	kept   []*compile.Program // each gives one of the target's kept rows as its results
	lim    backend.Limits
	d      draft.FromHidden
	states [][][]float64 // of each kept value, by position
	id     int64         // of the sequence
	salt   uint64
}

var limits = backend.Limits{Tokens: 16, Seqs: 2, Logits: 16, PageSize: 4, SeqPages: 8, Pages: 16}

// compiled is a graph's program on a device.
func compiled(t *testing.T, dev backend.Device, g *graph.Graph, files compile.Tensors, lim backend.Limits) *compile.Program {
	t.Helper()
	p, err := compile.Compile(g, dev, files, lim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// newRig compiles the target with what is kept of it.
func newRig(t *testing.T, dev backend.Device, g *graph.Graph, files tensors) *rig {
	r := &rig{t: t, target: compiled(t, dev, g, files, limits), lim: limits, states: make([][][]float64, len(g.Kept))}
	for _, v := range g.Kept {
		b := graph.NewBuilder("reader", nil, graph.F32, graph.F32)
		read, err := b.Finish(b.SelectRows("selected", b.Input("rows", v.Axis)))
		if err != nil {
			t.Fatal(err)
		}
		r.kept = append(r.kept, compiled(t, dev, read, files, limits))
	}
	return r
}

// step has the target compute the tokens from a position on, and tells the drafter, of which the first count.
func (r *rig) step(tokens []int32, from, rows, count int, known []int32) {
	r.t.Helper()
	b := &backend.Batch{}
	b.Reset(1, r.lim.SeqPages)
	b.AppendSeq(r.lim, 1, from, tokens[from:from+rows])
	for i := range rows {
		b.LogitsIndices = append(b.LogitsIndices, int32(i))
	}
	r.d.Computed(nil)
	if err := r.target.Run(b); err != nil {
		r.t.Fatal(err)
	}
	c := draft.Computed{ID: r.id, Salt: r.salt, Tokens: known, From: from, Last: count - 1}
	for i := range count {
		c.Rows = append(c.Rows, int32(i))
	}
	for i, p := range r.kept {
		if err := p.CopyRows(p.Input(0), 0, r.target.Kept(i), 0, rows); err != nil {
			r.t.Fatal(err)
		}
		if err := p.Run(b); err != nil {
			r.t.Fatal(err)
		}
		read := make([]float32, rows*hidden)
		if err := p.Logits(read, 0, rows); err != nil {
			r.t.Fatal(err)
		}
		r.states[i] = r.states[i][:from]
		for row := range count {
			var x []float64
			for _, v := range read[row*hidden : (row+1)*hidden] {
				x = append(x, float64(v))
			}
			r.states[i] = append(r.states[i], x)
		}
	}
	r.d.Computed([]draft.Computed{c})
}

// draft has tokens drafted, and gives the logits that each was chosen from.
func (r *rig) draft(tokens []int32, most int) (drafted []int32, logits [][]float32) {
	r.t.Helper()
	q := []draft.Sequence{{ID: r.id, Salt: r.salt, Tokens: tokens, Max: most, Choose: func(x []float32, _ []int32) int32 {
		logits = append(logits, append([]float32(nil), x...))
		return best(x)
	}}}
	if err := r.d.Propose(q); err != nil {
		r.t.Fatal(err)
	}
	return q[0].Draft.Tokens, logits
}

func best(x []float32) (at int32) {
	for i := range x {
		if x[i] > x[at] {
			at = int32(i)
		}
	}
	return at
}

// check compares the logits of drafts with the formula: row gives those of a token with the hidden states of the one before, those that the target
// has made first.
func (r *rig) check(tokens []int32, drafted []int32, logits [][]float32, first func(position int) []float64, row func(token int32, before []float64, position int) (logits, next []float64)) {
	r.t.Helper()
	var want, next []float64
	for p := range len(tokens) - 1 {
		want, next = row(tokens[p+1], first(p), p)
	}
	for i := range logits {
		if i > 0 {
			want, next = row(drafted[i-1], next, len(tokens)-2+i)
		}
		for id := range want {
			if d := math.Abs(want[id] - float64(logits[i][id])); !(d < 1e-4) && !(math.IsInf(want[id], -1) && math.IsInf(float64(logits[i][id]), -1)) {
				r.t.Fatalf("draft token %d: logit %d is %g, and %g by the formula", i, id, logits[i][id], want[id])
			}
		}
	}
}

// newMTP is a random target with the drafter of its MTP layer, whose drafts are trees with more than one branch, on the reference device.
func newMTP(t *testing.T, branch int) (*rig, tensors) {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 4))
	files := newTarget(random)
	m, err := model.FromHF("target", []byte(config), files)
	if err != nil {
		t.Fatal(err)
	}
	if n := m.MTPLayers(); n != 1 {
		t.Fatalf("%d MTP layers", n)
	}
	o := model.Options{Act: graph.F32, Cache: graph.F32}
	g, err := m.Graph(o)
	if err == nil {
		g, err = graph.KeepFinal(g)
	}
	if err != nil {
		t.Fatal(err)
	}
	layer, err := m.MTPGraph(o)
	if err != nil {
		t.Fatal(err)
	}
	dev := ref.New()
	r := newRig(t, dev, g, files)
	d, err := New(Model{Name: "mtp", Target: []compile.DeviceRows{r.target.Kept(0)}, Layer: compiled(t, dev, layer, files, Limits(limits, branch)), Branch: branch, Vocab: vocab, Close: func() error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	r.d = d.(draft.FromHidden)
	return r, files
}

// TestMTP: what an MTP layer drafts is what the formula says, after prompts in chunks, when all, some and none of a draft is accepted, and when a step
// brings no token.
func TestMTP(t *testing.T) {
	r, files := newMTP(t, 0)
	drafts(t, r, func() func(int32, []float64, int) ([]float64, []float64) {
		return (&formula{files: files, layer: "model.layers.2"}).mtp
	}, func(p int) []float64 { return r.states[0][p] })
}

// drafts goes through an answer: a prompt in chunks, and then drafts of which some tokens are accepted.
func drafts(t *testing.T, r *rig, newFormula func() func(int32, []float64, int) ([]float64, []float64), first func(int) []float64) {
	random := rand.New(rand.NewPCG(5, 6))
	tokens := []int32{3, 14, 15, 9, 26, 5, 35, 8, 30}
	r.step(tokens, 0, 4, 4, tokens[:8]) // the prompt is all but the last
	if drafted, _ := r.draft(tokens[:8], 3); len(drafted) > 0 {
		t.Fatalf("%v is drafted in the middle of a prompt", drafted)
	}
	r.step(tokens, 4, 4, 4, tokens)
	for round := range 8 {
		most := 1 + round%3
		drafted, logits := r.draft(tokens, most)
		if len(drafted) != most {
			t.Fatalf("%d tokens are drafted of %d", len(drafted), most)
		}
		r.check(tokens, drafted, logits, first, newFormula())
		accepted := min(round%4, most)
		with := append(append([]int32(nil), tokens...), drafted...)
		from := len(tokens) - 1
		tokens = append(tokens, drafted[:accepted]...)
		if round != 5 { // in which the next token did not come, and the last is computed again
			tokens = append(tokens, int32(random.IntN(vocab)))
			r.step(with, from, 1+most, 1+accepted, tokens)
		} else {
			r.step(with, from, 1+most, 1+accepted, tokens)
			drafted, logits := r.draft(tokens, 2)
			r.check(tokens, drafted, logits, first, newFormula())
			at := len(tokens) - 1
			tokens = append(tokens, 11)
			r.step(tokens, at, 1, 1, tokens)
		}
	}
}
