package graph

import (
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/quant"
)

// LowRank is what an adapter changes of one matrix W: LoRA (Hu et al., arXiv:2106.09685) with what PEFT adds to it. For a row x of a Linear
// with the result y = Wx + b the adapter's result is
//
//	Columns ⊙ y + Scale·B(A x) + Bias
//
// with Rows·x in place of Columns ⊙ y where the matrix, or some of its rows, are other ones. Of a table of embeddings, A has a row for each
// token: the result for token t is y + Scale·B A[t], or Rows[t] in place of y.
type LowRank struct {
	A       quant.Tensor // [rank, in]; of a table [vocab, rank]; no data: there is no product
	B       quant.Tensor // [out, rank]; of a table [hidden, rank]
	Scale   float32
	Columns []float32 // [out] DoRA's magnitude over the norm of each row of W + Scale·BA (arXiv:2402.09353); nil: ones
	Bias    []float32 // [out]; nil: zeros

	Rows    quant.Tensor // [out, in], or those of Indices; no data: there are none
	Indices []int32      // of the rows of W that Rows replace, ascending; nil: all

	// Stack is how many matrices a stack has, those of experts or heads, of which A has [stack × rank, in] and B [stack × out, rank], and the adapter
	// nothing else; 0: W is one matrix.
	Stack int

	Packed any // the same as a device computes with it, if it was made ahead
}

// Rank is the rank of the product; 0: there is none.
func (l *LowRank) Rank() int {
	if l == nil || len(l.A.Data) == 0 {
		return 0
	}
	return l.B.Cols
}

// Matrix is the product of matrix i of a stack.
func (l *LowRank) Matrix(i int) (a, b quant.Tensor) {
	rank, out := l.Rank(), l.B.Rows/l.Stack
	return l.A.RowSpan(i*rank, (i+1)*rank), l.B.RowSpan(i*out, (i+1)*out)
}

// RowFor is which of Rows takes the place of row i of the matrix; false: none does.
func (l *LowRank) RowFor(i int) (at int, ok bool) {
	if len(l.Rows.Data) == 0 {
		return 0, false
	}
	if l.Indices == nil {
		return i, true
	}
	return slices.BinarySearch(l.Indices, int32(i))
}

// Slots is the part of a Weight that adapters fill: a place for each adapter that is resident, with a LowRank or nothing. What is in
// them is replaced while the program lives.
type Slots struct {
	Of    *Weight // the matrix that adapters change, as the Linear or Embed beside it has it
	Bias  *Weight // that the Linear adds; nil: there is none
	Count int     // adapters that are resident at most
	Rank  int     // largest rank of their products
	Table bool    // rows are looked up and not multiplied
}

// LoRA changes the results of Linears of the same rows as the adapters of the rows' sequences say. Each weight has Slots. Results take the
// place of its inputs in memory: rows of sequences without an adapter stay as they are, and a step without any need not run it.
type LoRA struct{ simple }

// Name implements Op.
func (LoRA) Name() string { return "LoRA" }

// Attrs implements Op.
func (LoRA) Attrs() string { return "" }

// Infer implements Op: x [rows, in], y₁ … yₙ [rows, outᵢ], n weights with slots for [outᵢ, in] → y₁ … yₙ. With shards of the columns of
// the matrices the results are partial, as the inputs are; with shards of the rows they are sharded.
func (LoRA) Infer(n *Node) ([]Value, error) {
	if len(n.Weights) == 0 || len(n.In) != 1+len(n.Weights) {
		return nil, fmt.Errorf("takes rows and a result for each of its %d weights, and was given %d inputs", len(n.Weights), len(n.In))
	}
	x := n.In[0]
	if err := matrix(x); err != nil {
		return nil, err
	}
	var made []Value
	for i, w := range n.Weights {
		y := n.In[1+i]
		if err := matrix(y); err != nil {
			return nil, err
		}
		switch {
		case w.Slots == nil || w.Slots.Table:
			return nil, fmt.Errorf("weight %s has no slots for adapters of a matrix", w.Name)
		case x.Axis.Len() != w.In.Len() || y.Axis.Len() != w.Out.Len() || y.Rows != x.Rows:
			return nil, fmt.Errorf("%s is [%s, %s], %s is [%s, %s], and weight %s is %d × %d", x.Name, x.Rows, x.Axis, y.Name, y.Rows, y.Axis, w.Name, w.Out.Len(), w.In.Len())
		}
		v := like(y)
		v.Partial = y.Partial
		made = append(made, v)
	}
	return made, nil
}

// Work implements Op: rows of sequences with adapters, and each adapter once. Of logits it counts nothing, since few adapters change
// the head.
func (LoRA) Work(n *Node, s *Step) Work {
	if n.In[0].Rows == Logits {
		return Work{}
	}
	var w Work
	for i, a := range s.Adapters {
		rows := int64(s.Seqs[a.Seq].New - a.Skip)
		w.ValueRead += rows * n.In[0].RowBytes()
		for j, slots := range n.Weights {
			size := int64(a.Rank) * int64(slots.In.Len()+slots.Out.Len())
			w.FLOPs += 2 * rows * size
			w.ValueRead += rows * n.In[1+j].RowBytes()
			w.ValueWrite += rows * n.Out[j].RowBytes()
			if i == 0 || s.Adapters[i-1].Slot != a.Slot {
				w.WeightBytes += size * int64(a.Bytes)
			}
		}
	}
	return w
}

// Overwrites implements InPlace.
func (LoRA) Overwrites(out int) (in int) { return 1 + out }

// LoRAEmbed changes rows of embeddings as the adapters of their sequences say, in place like LoRA. Scale is that of the Embed.
type LoRAEmbed struct {
	simple
	Scale float64
}

// Name implements Op.
func (LoRAEmbed) Name() string { return "LoRAEmbed" }

// Attrs implements Op.
func (o LoRAEmbed) Attrs() string {
	if o.Scale == 0 {
		return ""
	}
	return fmt.Sprintf("scale %.6g", o.Scale)
}

// Infer implements Op: y [tokens, hidden], a weight with slots for a table [vocab, hidden] → y.
func (LoRAEmbed) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 1, 1); err != nil {
		return nil, err
	}
	y, w := n.In[0], n.Weights[0]
	if err := matrix(y); err != nil {
		return nil, err
	}
	if w.Slots == nil || !w.Slots.Table || y.Axis.Len() != w.In.Len() || y.Rows != Tokens {
		return nil, fmt.Errorf("%s is [%s, %s], which weight %s has no slots for", y.Name, y.Rows, y.Axis, w.Name)
	}
	return []Value{like(y)}, nil
}

// Work implements Op: nothing is counted, since few adapters change embeddings.
func (LoRAEmbed) Work(*Node, *Step) Work { return Work{} }

// Overwrites implements InPlace.
func (LoRAEmbed) Overwrites(int) (in int) { return 0 }

// InPlace is an op whose results take the memory of inputs, which nothing else reads.
type InPlace interface {
	Op
	// Overwrites is which input result number out takes the memory of.
	Overwrites(out int) (in int)
}

// IsAdapter reports whether a node only does what adapters ask for: a step without any is the same without it.
func IsAdapter(n *Node) bool {
	switch n.Op.(type) {
	case LoRA, LoRAEmbed, LoRAHeads:
		return true
	}
	return false
}
