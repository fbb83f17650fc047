package graph

import (
	"fmt"
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

// Work implements Op: that of the MoE. Of the adapters nothing is counted, since few change experts.
func (o AdaptedMoE) Work(n *Node, s *Step) Work { return o.MoE.Work(o.base(n), s) }

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
