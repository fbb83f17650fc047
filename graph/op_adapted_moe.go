package graph

import (
	"fmt"
	"math"
)

// AdaptedMoE is a MoE whose experts' matrices adapters change: beside each product of an expert with a row of a sequence with an adapter the adapter's
// for this expert. It has a third input, the rows before they are quantised, and behind the MoE's weights one with Slots for each of an
// expert's matrices.
type AdaptedMoE struct{ MoE }

// Name implements Op.
func (AdaptedMoE) Name() string { return "AdaptedMoE" }

// base is the node without adapters.
func (o AdaptedMoE) base(n *Node) *Node {
	plain := *n
	plain.Op, plain.In, plain.Weights = o.MoE, n.In[:2], n.Weights[:len(n.Weights)-ExpertMatrices]
	return &plain
}

// Infer implements Op: a MoE's inputs, x [rows, in] in floats, its weights, slots for gates, ups and downs → [rows, in].
func (o AdaptedMoE) Infer(n *Node) ([]Value, error) {
	if len(n.In) != 3 || len(n.Weights) < 2*ExpertMatrices {
		return nil, fmt.Errorf("takes a MoE's inputs and weights, its rows once more and slots for %d matrices, and was given %d inputs and %d weights", ExpertMatrices, len(n.In), len(n.Weights))
	}
	x := n.In[2]
	if err := matrix(x); err != nil {
		return nil, err
	}
	if x.Rows != n.In[0].Rows || x.Axis.Len() != n.In[0].Axis.Len() || x.Type == Q8 {
		return nil, fmt.Errorf("%s is [%s, %s] %s, and the rows %s in floats are wanted", x.Name, x.Rows, x.Axis, x.Type, n.In[0].Name)
	}
	for i, w := range n.Weights[len(n.Weights)-ExpertMatrices:] {
		if of := n.Weights[i]; w.Slots == nil || w.Slots.Of.Matrices() != of.Matrices() || w.Out.Len() != of.Out.Len() || w.In.Len() != of.In.Len() {
			return nil, fmt.Errorf("weight %s has no slots for adapters of %s", w.Name, of.Name)
		}
	}
	return o.MoE.Infer(o.base(n))
}

// Work implements Op: that of the MoE, and the adapters' products. Which experts the rows of an adapter need, only their scores say: as many are counted as even
// chances would reach if each adapter had as many rows.
func (o AdaptedMoE) Work(n *Node, s *Step) Work {
	w := o.MoE.Work(o.base(n), s)
	rows, adapters, rankBytes, each := int64(0), int64(0), int64(0), o.PerRank(n)
	for i, a := range s.Adapters {
		new := int64(s.Seqs[a.Seq].New - a.Skip)
		rows += new
		w.FLOPs += 2 * new * int64(o.TopK) * int64(a.Rank) * each
		if n.In[2] != n.In[0] {
			w.ValueRead += new * n.In[2].RowBytes()
		}
		if i == 0 || s.Adapters[i-1].Slot != a.Slot {
			adapters++
			rankBytes += int64(a.Rank) * int64(a.Bytes)
		}
	}
	w.WeightBytes += o.AdapterBytes(n, rows, adapters, rankBytes)
	return w
}

// PerRank is how many numbers an adapter has for each rank of one expert.
func (o AdaptedMoE) PerRank(n *Node) (sum int64) {
	for _, w := range n.Weights[:ExpertMatrices] {
		sum += int64(w.In.Len() + w.Out.Len())
	}
	return sum
}

// AdapterBytes is what so many adapters, of so many rows in all and with so many bytes for a number of each of their ranks in all, are expected to be read of.
func (o AdaptedMoE) AdapterBytes(n *Node, rows, adapters, rankBytes int64) int64 {
	if adapters == 0 {
		return 0
	}
	all := float64(int64(n.Weights[ExpertGate].Matrices()) * o.PerRank(n) * rankBytes)
	return int64(math.Round(all * o.Reached((rows+adapters-1)/adapters)))
}

// Experts is a node's block of experts, with or without adapters.
func Experts(n *Node) (MoE, bool) {
	switch o := n.Op.(type) {
	case MoE:
		return o, true
	case AdaptedMoE:
		return o.MoE, true
	}
	return MoE{}, false
}
