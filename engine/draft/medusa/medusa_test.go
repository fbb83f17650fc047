package medusa

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

const hidden, vocab = 6, 20

// tensors is a file's.
type tensors map[string]quant.Tensor

func (f tensors) Tensor(name string) (quant.Tensor, bool) { t, ok := f[name]; return t, ok }
func (tensors) Release([]byte)                            {}

// put adds a random tensor.
func (f tensors) put(r *rand.Rand, name string, rows, cols int) {
	t := quant.Tensor{Format: quant.F32, Rows: rows, Cols: cols}
	for range rows * cols {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(float32(r.NormFloat64())))
	}
	f[name] = t
}

// times is a tensor times x.
func (f tensors) times(name string, x []float64) []float64 {
	t := f[name]
	y := make([]float64, t.Rows)
	for i := range y {
		for j := range x {
			y[i] += x[j] * float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*(i*t.Cols+j):])))
		}
	}
	return y
}

// vector is a tensor of one row.
func (f tensors) vector(name string) []float64 {
	t := f[name]
	x := make([]float64, t.Cols)
	for i := range x {
		x[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:])))
	}
	return x
}

// target is a program that keeps the rows that it is given.
type target struct{ *compile.Program }

func newTarget(t *testing.T, dev backend.Device) target {
	files := tensors{"table": {Format: quant.F32, Rows: 1, Cols: hidden, Data: make([]byte, 4*hidden)}}
	b := graph.NewBuilder("target", func(name string) (graph.Stored, bool) {
		return graph.Stored{Format: quant.F32, Rows: 1, Cols: hidden, Recipe: recipe.Tensor(name)}, true
	}, graph.F32, graph.F32)
	x := b.Embed("x", b.Weight("table", graph.Axis{Name: "vocab", Count: 1, Size: 1}, graph.Axis{Name: "hidden", Count: hidden, Size: 1}), 0)
	b.Keep(x)
	g, err := b.Finish(b.SelectRows("selected", x))
	if err != nil {
		t.Fatal(err)
	}
	p, err := compile.Compile(g, dev, files, backend.Limits{Tokens: 4, Seqs: 4, Logits: 4, PageSize: 16, SeqPages: 1, Pages: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return target{p}
}

// run has the target keep rows.
func (p target) run(t *testing.T, rows ...[]float32) {
	t.Helper()
	b := &backend.Batch{}
	b.Reset(1, 1)
	for i, row := range rows {
		b.Tokens, b.Positions, b.LogitsIndices = append(b.Tokens, 0), append(b.Positions, 0), append(b.LogitsIndices, int32(i))
		b.QStart, b.KVLen, b.RopeLen = append(b.QStart, int32(i+1)), append(b.KVLen, 1), append(b.RopeLen, 1)
		b.Tables[0].Slots, b.Tables[0].Pages = append(b.Tables[0].Slots, 0), append(b.Tables[0].Pages, 0)
		b.Embeddings, b.EmbeddingRows = append(b.Embeddings, row...), append(b.EmbeddingRows, int32(i))
	}
	if err := p.Run(b); err != nil {
		t.Fatal(err)
	}
}

// layouts name the tensors of head i: its blocks, and its last product.
var layouts = map[string]func(i int) (blocks []string, head string){
	"the authors'": func(i int) ([]string, string) {
		return []string{fmt.Sprintf("%d.0.linear", i), fmt.Sprintf("%d.1.linear", i)}, fmt.Sprintf("%d.2.weight", i)
	},
	"vLLM's": func(i int) ([]string, string) {
		return []string{fmt.Sprintf("blocks.%d.layers.0", i)}, fmt.Sprintf("lm_heads.%d.weight", i)
	},
	"the demo's": func(i int) ([]string, string) {
		return []string{fmt.Sprintf("%d.resblock", i)}, fmt.Sprintf("%d.lm.weight", i)
	},
}

// TestHeads: heads in each layout propose the combinations of tokens that are likeliest as a whole, by plain arithmetic, the likeliest first; of a
// sequence whose hidden states are not those of its last token nothing.
func TestHeads(t *testing.T) {
	const heads, most = 3, 12
	for name, layout := range layouts {
		t.Run(name, func(t *testing.T) {
			random, files := rand.New(rand.NewPCG(7, 8)), tensors{}
			for i := range heads {
				blocks, head := layout(i)
				for _, b := range blocks {
					files.put(random, b+".weight", hidden, hidden)
					files.put(random, b+".bias", 1, hidden)
				}
				files.put(random, head, vocab, hidden)
			}
			h, err := Open(files, hidden, vocab)
			if err != nil {
				t.Fatal(err)
			}
			dev := ref.New()
			graphs, err := h.Graphs(graph.F32)
			if err != nil || len(graphs) != heads {
				t.Fatal(len(graphs), err)
			}
			var programs []*compile.Program
			for _, g := range graphs {
				p, err := compile.Compile(g, dev, files, Limits(backend.Limits{Seqs: 4}))
				if err != nil {
					t.Fatal(err)
				}
				programs = append(programs, p)
			}
			target := newTarget(t, dev)
			made, err := New(programs, target.Kept(0), func() error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			d := made.(draft.FromHidden)
			defer d.Close()
			seqs := make([]draft.Sequence, 3)
			x, computed := make([][]float32, len(seqs)), make([]draft.Computed, len(seqs))
			for i := range seqs {
				for range hidden {
					x[i] = append(x[i], float32(random.NormFloat64()))
				}
				seqs[i] = draft.Sequence{ID: int64(i), Tokens: make([]int32, 5+i), Max: most}
				computed[i] = draft.Computed{ID: int64(i), Tokens: seqs[i].Tokens, Last: 2 - i}
			}
			target.run(t, x[2], x[1], x[0])
			d.Computed(computed)
			seqs[1].Tokens = append(seqs[1].Tokens, 9) // one that was forced
			if err := d.Propose(seqs); err != nil {
				t.Fatal(err)
			}
			if len(seqs[1].Draft.Tokens) > 0 {
				t.Errorf("%+v is drafted from old hidden states", seqs[1].Draft)
			}
			for _, i := range []int{0, 2} {
				checkTree(t, &seqs[i].Draft, probabilities(files, layout, heads, x[i]), most)
			}
		})
	}
}

// probabilities are those that each head gives the tokens, as logarithms.
func probabilities(files tensors, layout func(int) ([]string, string), heads int, from []float32) (all [][]float64) {
	for i := range heads {
		var x []float64
		for _, v := range from {
			x = append(x, float64(v))
		}
		blocks, head := layout(i)
		for _, b := range blocks {
			y, bias := files.times(b+".weight", x), files.vector(b+".bias")
			for j := range x {
				v := y[j] + bias[j]
				x[j] += v / (1 + math.Exp(-v))
			}
		}
		logits, sum := files.times(head, x), 0.0
		for _, v := range logits {
			sum += math.Exp(v)
		}
		for j := range logits {
			logits[j] -= math.Log(sum)
		}
		all = append(all, logits)
	}
	return all
}

// checkTree: the tree has the most likely branches of all, by trying all, in order.
func checkTree(t *testing.T, d *draft.Draft, log [][]float64, most int) {
	t.Helper()
	var all []float64
	var walk func(depth int, before float64)
	walk = func(depth int, before float64) {
		for _, x := range log[depth] {
			all = append(all, before+x)
			if depth+1 < len(log) {
				walk(depth+1, before+x)
			}
		}
	}
	walk(0, 0)
	slices.Sort(all)
	slices.Reverse(all)
	if len(d.Tokens) != most || len(d.Parents) != most {
		t.Fatalf("%+v has not %d tokens", d, most)
	}
	for i := range d.Tokens {
		sum := 0.0
		for depth, id := range d.Path(nil, i) {
			sum += log[depth][id]
		}
		if math.Abs(sum-all[i]) > 1e-4 {
			t.Errorf("token %d of the tree has %.4f, and %.4f is the next best", i, sum, all[i])
		}
		if d.Parent(i) >= i {
			t.Errorf("token %d comes before its parent %d", i, d.Parent(i))
		}
	}
}

// TestOpenRefuses heads of another size, and files without.
func TestOpenRefuses(t *testing.T) {
	random, files := rand.New(rand.NewPCG(7, 8)), tensors{}
	if _, err := Open(files, hidden, vocab); err == nil || !strings.Contains(err.Error(), "no heads among the tensors") {
		t.Error(err)
	}
	files.put(random, "0.resblock.weight", hidden, hidden+1)
	files.put(random, "0.lm.weight", vocab, hidden)
	if _, err := Open(files, hidden, vocab); err == nil || !strings.Contains(err.Error(), "tensor 0.resblock.weight is 6 × 7") {
		t.Error(err)
	}
	if _, err := Open(files, hidden, vocab+1); err == nil || !strings.Contains(err.Error(), "tensor 0.lm.weight is 20 × 6") {
		t.Error(err)
	}
}
