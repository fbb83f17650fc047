package graph

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/quant"
)

// Kind says which operations a Fused op combines, by the name of its row in the table of pass.Fuse. Devices choose kernels by it.
type Kind string

// The kinds of Fused ops. Linear layers of a group read the same rows; all of them may have a Prologue.
const (
	LinearGroup       Kind = "LinearGroup"       // 2 to 4 Linears
	GatedLinear       Kind = "GatedLinear"       // Linear (gate), Linear (up), ActMul
	NormLinear        Kind = "NormLinear"        // Linear; only with a Prologue
	LinearAddNorm     Kind = "LinearAddNorm"     // Linear, AddNorm; the norm is Deferred
	MoEAddNorm        Kind = "MoEAddNorm"        // MoE, AddNorm; the norm may be Deferred
	AddNormRouter     Kind = "AddNormRouter"     // AddNorm, Linear that scores experts
	NormQuantize      Kind = "NormQuantize"      // RMSNorm or AddNorm, Quantize
	GatedNorm         Kind = "GatedNorm"         // RMSNorm per head, ActMul of a gate and it
	RoPEKVWrite       Kind = "RoPEKVWrite"       // RoPE of queries, RoPE of keys, KVWrite
	RoPEAttention     Kind = "RoPEAttention"     // RoPE, RoPE, KVWrite, Attention
	AdaptedLinear     Kind = "AdaptedLinear"     // 1 to 3 Linears, LoRA of their results; of two, ActMul behind it
	OutlierLinear     Kind = "OutlierLinear"     // 1 to 3 times Linear and AddOutliers; of two, ActMul behind them
	LatentAttention   Kind = "LatentAttention"   // HeadLinear of queries, Attention to a latent cache, HeadLinear of what it makes
	AllReduceAddNorm  Kind = "AllReduceAddNorm"  // AllReduce, AddNorm of its sum
	HeadNormAttention Kind = "HeadNormAttention" // RMSNorm per head of queries and of keys, RoPE, RoPE, KVWrite, Attention
)

// Fused is several operations that a device computes as one, mostly in one launch: what one makes and only another reads need not be
// written to memory. It is what XLA calls a fusion: its meaning is its parts.
type Fused struct {
	Kind    Kind
	Parts   []Part // in an order in which they can run
	Results []int  // which values the node makes, counted as in Part.In

	// Prologue, if not nil, says that input 0 is a deferred norm: in steps of few rows it is not there, and the node normalises input
	// 1 with weight 0 itself. No part reads those two.
	Prologue *Prologue
	// Deferred, if not 0, is up to how many rows the last result, a norm, is not written: see Value.Deferred.
	Deferred int
}

// Prologue is the norm that a node with a deferred input computes itself.
type Prologue struct {
	Rows int // in steps of up to so many rows
	Eps  float64
}

// Part is one operation of a Fused op.
type Part struct {
	Op      Op
	Names   []string // of what it makes
	In      []int    // values: the node's inputs are 0, 1 …, and the results of all parts follow in order
	Weights int      // it has the next so many of the node's weights
}

// NewFused is the op that stands for some nodes, with the inputs and weights of its node; outs are those of their results that the
// node makes.
func NewFused(kind Kind, nodes []*Node, outs []*Value) (o *Fused, in []*Value, weights []*Weight) {
	return newFused(kind, nodes, outs, nil)
}

// newFused is NewFused with first inputs that no part need read.
func newFused(kind Kind, nodes []*Node, outs, first []*Value) (o *Fused, in []*Value, weights []*Weight) {
	o, in = &Fused{Kind: kind}, slices.Clone(first)
	var made []*Value
	for _, n := range nodes {
		for _, v := range n.In {
			if !slices.Contains(made, v) && !slices.Contains(in, v) {
				in = append(in, v)
			}
		}
		made = append(made, n.Out...)
		weights = append(weights, n.Weights...)
	}
	all := append(slices.Clone(in), made...)
	for _, n := range nodes {
		p := Part{Op: n.Op, Weights: len(n.Weights)}
		for _, v := range n.In {
			p.In = append(p.In, slices.Index(all, v))
		}
		for _, v := range n.Out {
			p.Names = append(p.Names, v.Name)
		}
		o.Parts = append(o.Parts, p)
	}
	for _, v := range outs {
		o.Results = append(o.Results, slices.Index(all, v))
	}
	return o, in, weights
}

// WithPrologue is a node, a Linear or a Fused op of Linears, that computes the norm of x by w itself where its input is deferred.
func WithPrologue(n *Node, x *Value, w *Weight, p Prologue) (o *Fused, in []*Value, weights []*Weight) {
	kind := NormLinear
	if f, ok := n.Op.(*Fused); ok {
		kind = f.Kind
	}
	o, in, weights = newFused(kind, Parts(n), n.Out, []*Value{n.In[0], x})
	o.Prologue = &p
	return o, in, append([]*Weight{w}, weights...)
}

// Name implements Op.
func (o *Fused) Name() string { return string(o.Kind) }

// Attrs implements Op: those of the parts that have any.
func (o *Fused) Attrs() string {
	var all []string
	if p := o.Prologue; p != nil {
		all = append(all, fmt.Sprintf("norm eps %.4g up to %d rows", p.Eps, p.Rows))
	}
	for _, p := range o.Parts {
		a := p.Op.Attrs()
		if q, ok := p.Op.(Quantize); ok {
			a = "to " + q.To.String()
		}
		if a != "" {
			all = append(all, p.Op.Name()+" "+a)
		}
	}
	if o.Deferred > 0 {
		all = append(all, fmt.Sprintf("norm deferred up to %d rows", o.Deferred))
	}
	return strings.Join(all, "; ")
}

// Infer implements Op: what the parts accept and make.
func (o *Fused) Infer(n *Node) ([]Value, error) {
	if p := o.Prologue; p != nil {
		if len(n.In) < 2 || len(n.Weights) < 1 {
			return nil, fmt.Errorf("takes a norm, what it is of and its weight, and was given %d inputs", len(n.In))
		}
		if err := alike(n.In[0], n.In[1]); err != nil {
			return nil, err
		}
		if err := vector(n.Weights[0], n.In[1].Axis.Len()); err != nil {
			return nil, err
		}
	}
	_, all, err := o.expand(n, nil)
	if err != nil {
		return nil, err
	}
	var made []Value
	for _, r := range o.Results {
		v := all[r]
		made = append(made, Value{Rows: v.Rows, Axis: v.Axis, Type: v.Type, Cache: v.Cache, Partial: v.Partial})
	}
	made[len(made)-1].Deferred = o.Deferred
	return made, nil
}

// expand makes the parts' nodes and lists all values, counted as in Part.In. results, if given, take the places of what the node makes.
func (o *Fused) expand(n *Node, results []*Value) (parts []*Node, all []*Value, err error) {
	all = slices.Clone(n.In)
	weights := n.Weights
	if o.Prologue != nil {
		weights = weights[1:]
	}
	for _, p := range o.Parts {
		if p.Weights > len(weights) {
			return nil, nil, fmt.Errorf("%s takes %d weights and %d are left", p.Op.Name(), p.Weights, len(weights))
		}
		part := &Node{Op: p.Op, Weights: weights[:p.Weights], At: n.At}
		weights = weights[p.Weights:]
		for _, i := range p.In {
			if i >= len(all) {
				return nil, nil, fmt.Errorf("%s reads value %d of %d", p.Op.Name(), i, len(all))
			}
			part.In = append(part.In, all[i])
		}
		outs, err := p.Op.Infer(part)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", p.Op.Name(), err)
		}
		for i := range outs {
			v := &outs[i]
			if at := slices.Index(o.Results, len(all)); at >= 0 && results != nil {
				v = results[at]
			} else if v.From = part; i < len(p.Names) {
				v.Name = p.Names[i]
			}
			part.Out = append(part.Out, v)
			all = append(all, v)
		}
		parts = append(parts, part)
	}
	if len(weights) > 0 {
		return nil, nil, fmt.Errorf("was given %d weights more than its parts take", len(weights))
	}
	for _, r := range o.Results {
		if r >= len(all) {
			return nil, nil, fmt.Errorf("makes value %d of %d", r, len(all))
		}
	}
	return parts, all, nil
}

// Work implements Op: that of the parts, without writing and reading what stays within the node, and with each input read once. A
// deferred norm is counted as written: in steps of many rows it is.
func (o *Fused) Work(n *Node, s *Step) Work {
	var sum Work
	for _, p := range WorkParts(n) {
		sum = sum.Plus(p.Node.Op.Work(p.Node, s))
		for _, v := range p.Unread {
			sum.ValueRead -= int64(s.Rows(v.Rows)) * v.RowBytes()
		}
		for _, v := range p.Unwritten {
			sum.ValueWrite -= int64(s.Rows(v.Rows)) * v.RowBytes()
		}
	}
	return sum
}

// Unfused implements Op. Input 0 is there in steps of any size then, so that a Prologue has nothing to do.
func (o *Fused) Unfused(b *Builder, n *Node, in []*Value) []*Value {
	all, weights := slices.Clone(in), n.Weights
	if o.Prologue != nil {
		weights = weights[1:]
	}
	for _, p := range o.Parts {
		var reads []*Value
		for _, i := range p.In {
			reads = append(reads, all[i])
		}
		made := b.emit(n.At, p.Names[0], p.Op, reads, weights[:p.Weights])
		for i, v := range made[:min(len(made), len(p.Names))] {
			v.Name = p.Names[i]
		}
		all, weights = append(all, made...), weights[p.Weights:]
	}
	var made []*Value
	for _, r := range o.Results {
		made = append(made, all[r])
	}
	return made
}

// Parts is the operations that a node stands for: itself, or those of a Fused op or a DeferredNorm. What the node makes are the
// same values; those within it are new.
func Parts(n *Node) []*Node {
	switch o := n.Op.(type) {
	case *Fused:
		parts, _, err := o.expand(n, n.Out)
		if err != nil {
			panic(fmt.Sprintf("graph: node %s was made without Infer: %v", o.Kind, err)) // every node's op has inferred its results
		}
		return parts
	case DeferredNorm:
		written := *n
		written.Op = RMSNorm{Eps: o.Eps}
		return []*Node{&written}
	}
	return []*Node{n}
}

// Operations is the Parts of all nodes, in order.
func (g *Graph) Operations() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for _, n := range g.Nodes {
			for _, p := range Parts(n) {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// Matrix is the size of the weight that a node's rows are multiplied with, and its format: of several, those that the same rows are
// multiplied with, one below the other. ok is false when there is none.
func (n *Node) Matrix() (out, in int, f quant.Format, ok bool) {
	var rows *Value
	for _, p := range Parts(n) {
		if len(p.Weights) == 0 || p.Weights[0].Out.Len() == 1 || rows != nil && p.In[0] != rows {
			continue
		}
		w := p.Weights[0]
		if !ok && len(p.In) > 0 {
			rows = p.In[0]
		}
		out, in, f, ok = out+w.Out.Len(), w.In.Len(), w.Format, true
	}
	return out, in, f, ok
}

// WorkPart is one of a node's Parts, with the values whose traffic its op counts and that need not move: those that another part of
// the node makes or has read before, and those that only other parts read.
type WorkPart struct {
	Node              *Node
	Unread, Unwritten []*Value
}

// WorkParts is a node's Parts with what need not move. What LoRA reads and writes moves: a device keeps the changes of the rows that have
// adapters in memory. Its results are those that it changes.
func WorkParts(n *Node) []WorkPart {
	parts := Parts(n)
	all := make([]WorkPart, len(parts))
	seen, leaves := map[*Value]bool{}, map[*Value]bool{} // leaves: the node makes it
	for _, v := range n.Out {
		leaves[v] = true
	}
	for _, p := range parts {
		if o, ok := p.Op.(LoRA); ok {
			for i, v := range p.Out {
				leaves[p.In[o.Overwrites(i)]] = leaves[v]
			}
		}
	}
	for at, p := range parts {
		of := &all[at]
		of.Node = p
		_, changes := p.Op.(LoRA)
		_, experts := p.Op.(AdaptedMoE)
		for i, v := range p.In {
			if experts && i == 2 && v == p.In[0] { // it does not count those again itself
				continue
			}
			if v.Cache == nil && seen[v] && !changes {
				of.Unread = append(of.Unread, v)
			}
			seen[v] = true
		}
		for _, v := range p.Out {
			if seen[v] = true; v.Cache == nil && !leaves[v] && !changes {
				of.Unwritten = append(of.Unwritten, v)
			}
		}
	}
	return all
}
