package quantize

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
)

// stepTokens is about how many tokens are computed in one step.
const stepTokens = 2048

// stepSeqs is how many sequences are computed in one step, at most.
const stepSeqs = 16

// pageSize is the tokens of a cache's page.
const pageSize = 16

// runner runs parts of a model's graph over a calibration text: sequences, each from its beginning.
type runner struct {
	dev    backend.Device
	files  compile.Tensors
	seqs   [][]int32
	values map[*graph.Value]rows // that have crossed a border, of all sequences one behind the other
}

// rows is a value of all tokens: [tokens, width].
type rows struct {
	width int
	data  []float32
}

// tokens is the tokens of all sequences, and the most of one.
func (r *runner) tokens() (all, longest int) {
	for _, s := range r.seqs {
		all, longest = all+len(s), max(longest, len(s))
	}
	return all, longest
}

// run computes a part over all sequences. each gets the rows of a sent value, by its ID, from row on of all sequences', and must copy what
// it keeps.
func (r *runner) run(ctx context.Context, g *graph.Graph, each func(id, row int, x []float32) error) error {
	_, longest := r.tokens()
	all := slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { _, sent := n.Op.(graph.Send); return sent && n.In[0].Rows == graph.Logits })
	lim := backend.Limits{Tokens: max(stepTokens, longest), Logits: 1, PageSize: pageSize, SeqPages: (longest + pageSize - 1) / pageSize}
	if all {
		lim.Logits = lim.Tokens
	}
	lim.Seqs = min(len(r.seqs), stepSeqs)
	lim.Pages = lim.Seqs * lim.SeqPages
	lim.KeepAll(g)
	x := &exchange{values: map[int]rows{}, each: each}
	for v, x1 := range r.values {
		x.values[v.ID] = x1
	}
	p, err := compile.CompilePart(g, r.dev, r.files, lim, x)
	if err != nil {
		return err
	}
	defer p.Close()
	for left := r.seqs; len(left) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, tokens := 0, 0
		for n < min(len(left), lim.Seqs) && tokens+len(left[n]) <= lim.Tokens {
			tokens += len(left[n])
			n++
		}
		b := batchOf(left[:n], lim, all)
		if err := b.Check(lim, 1<<30); err != nil {
			return fmt.Errorf("quantize: %w", err)
		}
		if err := p.Run(b); err != nil {
			return err
		}
		left = left[n:]
		x.row += tokens
	}
	return nil
}

// batchOf is a step of whole sequences; all: rows of logits are those of all tokens.
func batchOf(seqs [][]int32, lim backend.Limits, all bool) *backend.Batch {
	b := &backend.Batch{}
	b.Reset(max(1, len(lim.Groups)), lim.SeqPages)
	for s, tokens := range seqs {
		for p, id := range tokens {
			b.Tokens, b.Positions = append(b.Tokens, id), append(b.Positions, int32(p))
		}
		b.QStart = append(b.QStart, int32(len(b.Tokens)))
		b.KVLen, b.RopeLen = append(b.KVLen, int32(len(tokens))), append(b.RopeLen, int32(len(tokens)))
		for i := range b.Tables {
			t := &b.Tables[i]
			if len(lim.Groups) > 0 && lim.Groups[i].Recurrent {
				t.States = append(t.States, int32(s))
				continue
			}
			first := int32(s * lim.SeqPages)
			for p := range tokens {
				t.Slots = append(t.Slots, first*int32(lim.PageSize)+int32(p))
			}
			for p := range lim.SeqPages {
				t.Pages = append(t.Pages, first+int32(p))
			}
		}
	}
	b.LogitsIndices = append(b.LogitsIndices, 0)
	for r := 1; all && r < len(b.Tokens); r++ {
		b.LogitsIndices = append(b.LogitsIndices, int32(r))
	}
	return b
}

// exchange is what parts of a graph receive from and send to: the stages of their nodes are IDs of values. It implements comm.Communicator.
type exchange struct {
	values map[int]rows
	row    int // of the values, where the step begins
	each   func(id, row int, x []float32) error
}

var errAlone = errors.New("quantize: a part of a graph runs on one device")

// Rank implements comm.Communicator; there is only one.
func (*exchange) Rank() int { return 0 }

// Size implements comm.Communicator.
func (*exchange) Size() int { return 1 }

// AllReduce implements comm.Communicator; parts have none.
func (*exchange) AllReduce([]float32) error { return errAlone }

// AllGather implements comm.Communicator; parts have none.
func (*exchange) AllGather(_, _ []float32) error { return errAlone }

// Send implements comm.Communicator.
func (x *exchange) Send(id int, data []float32) error { return x.each(id, x.row, data) }

// Recv implements comm.Communicator.
func (x *exchange) Recv(id int, data []float32) error {
	v := x.values[id]
	copy(data, v.data[x.row*v.width:])
	return nil
}

// Abort implements comm.Communicator; no call waits.
func (*exchange) Abort(error) {}

// Reset implements comm.Communicator.
func (*exchange) Reset() {}
