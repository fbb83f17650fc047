package medusa

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// maxHeads is the most heads that are looked for.
const maxHeads = 16

// Heads is Medusa heads by their tensors. A head is blocks of x + silu(W x + b) and then a product with the vocabulary's rows.
type Heads struct {
	files  compile.Tensors
	names  [][]block // of each head
	heads  []string  // tensor of each head's last product
	hidden int
	vocab  int
}

// block names the tensors of a residual block.
type block struct{ weight, bias string }

// Open finds the heads among a file's tensors, in the layouts that Medusa's authors and vLLM write, for a model of that hidden size and vocabulary.
func Open(files compile.Tensors, hidden, vocab int) (*Heads, error) {
	h := &Heads{files: files, hidden: hidden, vocab: vocab}
	has := func(name string) bool { _, ok := files.Tensor(name); return ok }
	for i := range maxHeads {
		var blocks []block
		for j := range maxHeads {
			at := block{}
			for _, layout := range []string{"%d.%d.linear", "blocks.%d.layers.%d", "%d.resblock%.0d"} {
				name := fmt.Sprintf(layout, i, j)
				if (j == 0 || layout != "%d.resblock%.0d") && has(name+".weight") {
					at = block{name + ".weight", name + ".bias"}
				}
			}
			if at == (block{}) {
				break
			}
			blocks = append(blocks, at)
		}
		head := ""
		for _, name := range []string{fmt.Sprintf("%d.lm.weight", i), fmt.Sprintf("lm_heads.%d.weight", i), fmt.Sprintf("%d.%d.weight", i, len(blocks))} {
			if has(name) {
				head = name
			}
		}
		if head == "" {
			break
		}
		if err := h.check(head, vocab, hidden); err != nil {
			return nil, err
		}
		for _, b := range blocks {
			if err := h.check(b.weight, hidden, hidden); err != nil {
				return nil, err
			}
		}
		h.names, h.heads = append(h.names, blocks), append(h.heads, head)
	}
	if len(h.heads) == 0 {
		return nil, fmt.Errorf("medusa: there are no heads among the tensors; 0.lm.weight, lm_heads.0.weight or 0.1.weight is the first's")
	}
	return h, nil
}

// check refuses a tensor that is not rows × cols.
func (h *Heads) check(name string, rows, cols int) error {
	if t, _ := h.files.Tensor(name); t.Rows != rows || t.Cols != cols {
		return fmt.Errorf("medusa: tensor %s is %d × %d, and the model's hidden size and vocabulary ask for %d × %d", name, t.Rows, t.Cols, rows, cols)
	}
	return nil
}

// graph is head i: hidden states to logits.
func (h *Heads) graph(i int, act graph.Type) (*graph.Graph, error) {
	b := graph.NewBuilder(fmt.Sprintf("medusa head %d", i), func(name string) (graph.Stored, bool) {
		t, ok := h.files.Tensor(name)
		return graph.Stored{Format: t.Format, Rows: t.Rows, Cols: t.Cols, Recipe: recipe.Tensor(name)}, ok
	}, act, graph.F32)
	axis := func(name string, n int) graph.Axis { return graph.Axis{Name: name, Count: n, Size: 1} }
	hidden := axis("hidden", h.hidden)
	x := b.Input("hidden", hidden)
	for j, n := range h.names[i] {
		var bias *graph.Weight
		if b.Has(n.bias) {
			bias = b.Vector(n.bias, hidden)
		}
		y := b.Linear(fmt.Sprintf("block%d", j), x, b.Weight(n.weight, hidden, hidden), bias)
		x = b.Add(fmt.Sprintf("sum%d", j), x, b.Act(fmt.Sprintf("act%d", j), y, graph.Silu))
	}
	return b.Finish(b.Linear("logits", x, b.Weight(h.heads[i], axis("vocab", h.vocab), hidden), nil))
}

// Graphs is a graph of each head, in a device's type of activations.
func (h *Heads) Graphs(act graph.Type) ([]*graph.Graph, error) {
	var all []*graph.Graph
	for i := range h.heads {
		g, err := h.graph(i, act)
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return all, nil
}

// Limits is what the heads' programs must be compiled with: a row a sequence, and no cache.
func Limits(target backend.Limits) backend.Limits {
	return backend.Limits{Tokens: target.Seqs, Seqs: target.Seqs, Logits: target.Seqs, PageSize: 16, SeqPages: 1, Pages: 1}
}
