// Package graph describes one step of a model as a list of operations on matrices. It is a plan, never a language:
// nothing here computes. What to launch, how much memory a step takes, what it must cost, how it splits over devices
// and where a quantiser goes are all read off this description.
//
// Every value is a matrix of rows × one named Axis. Only two row counts vary from step to step: one row per token
// (Tokens; AllTokens where devices divide them, Arrived where they send them to experts), and one row per token whose logits are wanted (Logits). Everything else that varies (token ids,
// positions, page tables, lengths) is step data that a backend keeps in fixed buffers; it is never a shape.
package graph

import (
	"fmt"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// Axis names the columns of a matrix: Count groups of Size numbers, as in Axis{"heads", 32, 128}. The group is the
// unit in which an axis may be cut, so that heads are split as heads.
type Axis struct {
	Name  string
	Count int // groups
	Size  int // numbers in a group
	// Shards is over how many devices the axis is divided; this device has Count groups of it. 0: the axis is whole here.
	Shards int
}

// Len is how many numbers one row holds.
func (a Axis) Len() int { return a.Count * a.Size }

// Rows says which of the step's row counts a value has.
type Rows uint8

const (
	Tokens    Rows = iota // one row per token of the step; where devices divide the rows of steps (Sequence), per token of this one
	Logits                // one row per token whose logits are wanted
	AllTokens             // one row per token of the step, of all devices that divide them
	Arrived               // one row per token that has come to this device's experts: see Dispatch
)

func (r Rows) String() string { return [...]string{"tokens", "logits", "all tokens", "arrived"}[r] }

// Type is the element type in which a value is stored.
type Type uint8

const (
	F32  Type = iota
	F16       // IEEE half
	BF16      // upper half of an F32
	Q8        // int8 in blocks of 32 with an F32 scale; see Q8Block
	I8        // int8 with an F32 scale for each row of a matrix, or each head of a token in a cache
	F8        // e4m3, a float of eight bits, with an F32 scale for each row of a matrix; without one in a cache
	I4        // four bits with scales and minima in F16, in a cache alone; see quant.Int4Group
)

// Q8Block is how many numbers of a Q8 row share a scale. They are 127ths of the largest magnitude among them. A block
// takes Q8BlockBytes: the 32 numbers, the scale, and room for what a device's kernels want to know of the block
// beforehand, such as the sum of its numbers; a cache line in all.
const (
	Q8Block      = 32
	Q8BlockBytes = 64
)

func (t Type) String() string { return [...]string{"f32", "f16", "bf16", "q8", "i8", "f8", "i4"}[t] }

// RowBytes is the size in bytes of a row of n numbers; n is a multiple of Q8Block for Q8.
func (t Type) RowBytes(n int) int64 {
	switch t {
	case F32:
		return 4 * int64(n)
	case Q8:
		return int64(n/Q8Block) * Q8BlockBytes
	case I8, F8:
		return int64(n) // beside scales
	case I4:
		return int64(n) / 2 // likewise
	default:
		return 2 * int64(n)
	}
}

// formats are the number formats of weights that hold numbers as a type does: plain, or with a scale for each row.
var formats = map[Type]quant.Format{F32: quant.F32, F16: quant.F16, BF16: quant.BF16, I8: quant.INT8, F8: quant.FP8}

// Format is the number format in which a row of this type lies, its scale behind it; Invalid for Q8, whose blocks no weight has.
func (t Type) Format() quant.Format { return formats[t] }

// ScaledRows is the type of activations that weights in a format are multiplied with where both have a scale for each row: F8 for FP8, I8
// for INT8. It is F32 for other formats.
func ScaledRows(f quant.Format) Type {
	for _, t := range []Type{I8, F8} {
		if t.Format() == f {
			return t
		}
	}
	return F32
}

// Value is what a node produces: a matrix, or one version of a cache.
type Value struct {
	ID    int
	Name  string
	Rows  Rows
	Axis  Axis
	Type  Type
	Cache *Cache // not nil: the value is a version of this cache's content, and Rows, Axis and Type do not apply
	From  *Node  // nil for the first version of a cache
	// Partial says that this is one of several summands, of which each device of a tensor-parallel group has one: an AllReduce
	// must come before anything else reads it.
	Partial bool

	// Deferred, if not 0, says that the value is a norm that need not be there: in steps of up to so many rows its node does not write it,
	// and in larger ones a device may leave it in a form of its own. All nodes that read it have a Prologue for such steps; it is not the
	// graph's output.
	Deferred int
}

// RowBytes is the size in bytes of one row of a matrix value, with its scale if it has one. Where rows and scales lie in memory is the
// device's affair.
func (v *Value) RowBytes() int64 {
	n := v.Type.RowBytes(v.Axis.Len())
	if v.Type == I8 || v.Type == F8 {
		n += 4
	}
	return n
}

// Weight is a matrix that a model brings along, out features × in features, or a stack of matrices of one shape, such as those of
// experts. Its number format is a property of the weight: nodes do not know it and backends choose their kernel by it.
type Weight struct {
	Name    string // in GGUF's naming, "blk.0.attn_q.weight"; a part has its rows behind: "blk.0.attn_qkv.weight[0:64]"
	Stack   Axis   // of the matrices of a stack, "experts 8"; the zero Axis: there is one matrix
	Out, In Axis   // of each matrix; a vector is one row
	Format  quant.Format
	Tensor  string        // that it is, or is a part of, in GGUF's naming
	From    int           // the part's first row there; of a vector, its first number
	Recipe  recipe.Recipe // how it is made of the file's tensors; nil: there is no file
	At      string        // where in the model's code it was asked for
	Slots   *Slots        // not nil: it has no numbers of its own; adapters fill it after compiling
}

// Matrices is how many there are: one, or those of a stack.
func (w *Weight) Matrices() int {
	if w.Stack == (Axis{}) {
		return 1
	}
	return w.Stack.Len()
}

// Numbers is how many the weight has.
func (w *Weight) Numbers() int64 {
	if w.Slots != nil {
		return 0
	}
	return int64(w.Matrices()) * int64(w.Out.Len()) * int64(w.In.Len())
}

// Bytes is the size of the whole weight in its format; 0 of slots.
func (w *Weight) Bytes() int64 {
	if w.Slots != nil {
		return 0
	}
	return int64(w.Matrices()) * int64(w.Out.Len()) * w.Format.RowBytes(w.In.Len())
}

// Node is one operation with what it reads and what it makes.
type Node struct {
	Op      Op
	In      []*Value
	Weights []*Weight
	Out     []*Value
	Layer   int    // the layer that it belongs to, from 0; NoLayer outside, as embeddings and heads are
	At      string // where in the model's code it was built, "llama.go:31"
}

// NoLayer is the Layer of nodes outside layers.
const NoLayer = -1

// Layers is how many layers the graph has.
func (g *Graph) Layers() int {
	n := 0
	for _, node := range g.Nodes {
		n = max(n, node.Layer+1)
	}
	return n
}

// Graph is one step of a model: nodes in an order in which they can run.
type Graph struct {
	Name    string
	Nodes   []*Node
	Weights []*Weight
	Caches  []*Cache
	Output  *Value // the logits; the hidden states of an encoder
	Hidden  *Value // what the logits are made of, normalised; nil when the model has no such value
	// Inputs are rows that are copied to the device's memory before a step, such as another program's hidden states; no node makes them.
	Inputs []*Value
	// Kept are hidden states that other programs on the device go on from: each is in memory of its own until the end of the step. See Keep.
	Kept []*Value
	// Plain, if not nil, is the same model without what adapters change, fused as far as goes: a step in which no sequence has an adapter
	// runs it. It has the same weights, by their names, and the same caches and results.
	Plain *Graph
	// Sequence is how devices divide the rows of steps; the zero value: all are here.
	Sequence Sequence
}

// Sequence is one of several devices that divide the rows of every step between them (sequence parallelism).
type Sequence struct {
	Ranks, Rank int  // Ranks 0: the rows are not divided
	Split       bool // caches of keys and values are divided as well, by tokens: each device has 1/Ranks of a page
	// Own says that each device has all rows of its sequences, and their pages (data parallelism): a Step is one device's, and what the others have is like it.
	Own bool
}

// PageSize is how many tokens of a page each device has.
func (s Sequence) PageSize(whole int) (int, error) {
	if !s.Split {
		return whole, nil
	}
	if whole%(2*s.Ranks) != 0 {
		return 0, fmt.Errorf("pages of %d tokens cannot be divided among %d devices in two blocks each", whole, s.Ranks)
	}
	return whole / s.Ranks, nil
}

// Wide reports whether a node computes with the rows of all devices that divide them, or with rows of logits.
func (n *Node) Wide() bool {
	for _, list := range [][]*Value{n.In, n.Out} {
		for _, v := range list {
			if v.Cache == nil && (v.Rows == Logits || v.Rows == AllTokens) {
				return true
			}
		}
	}
	return false
}

// OfArrived reports whether a node computes with rows that have come to this device's experts. Dispatch and Combine, which bring them, do not.
func (n *Node) OfArrived() bool {
	return len(n.In) > 0 && n.In[0].Cache == nil && n.In[0].Rows == Arrived && n.Out[0].Rows == Arrived
}
