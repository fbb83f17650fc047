package graph

import (
	"fmt"
	"math"
)

// MoE is a mixture of experts in place of a feed-forward block: each row passes the TopK experts with the highest scores (Shazeer et al.,
// arXiv:1701.06538; of equal scores the first). The result is the sum of their outputs, each times its routing weight: softmax over
// the scores of the chosen, or over those of all experts (NoRenorm), whose weights then add up to less than one; or what Route made of
// the scores, which has the other ways to route (Shares). An expert is a block
// down(Fn(gate x) × up x). It stays one node: which rows go where is known only when the scores are.
type MoE struct {
	simple
	Experts  int
	TopK     int
	NoRenorm bool // routing weights are not renormalised over the chosen
	Shares   bool // scores are routing weights already, as Route makes them
	Fn       Fn   // of gates
	Biased   bool // each of an expert's matrices has a bias
	// Clamp bounds gates above and ups on both sides, and the block is then down((up x + 1) × g × sigmoid(1.702 g)) with
	// g = gate x, as in gpt-oss; 0: none of this.
	Clamp float64
	// Expert parallelism: this device holds Held experts from number First on; Held 0: all. Rows of Sources devices pass them, as many of
	// each as of its own, which Dispatch brings; 0: those of this device alone, and the result is partial.
	First, Held, Sources int
	// Cached is how many of the experts are in slots of another device, which computes them: no row that comes passes those. Of says that the experts are such slots, for which so many experts
	// take turns; what a slot has is not the node's: see CacheShares. 0: neither.
	Cached, Of int
	// NoDownBias leaves out the biases of down products: another shard of the experts adds them.
	NoDownBias bool
	To         Type // of the result
	// ActType is the dtype that activations are multiplied in: Q8, and then x has been quantised already, or BF16, rounded as they
	// are multiplied; F32 leaves them as they are.
	ActType Type
	// Rounds says that floats may be rounded to Q8 as they are multiplied where an expert has many rows: its matrices are decoded.
	Rounds bool
}

// SwiGLUAlpha scales gates within the sigmoid of a block with a Clamp.
const SwiGLUAlpha = 1.702

// A MoE node's weights: stacks with a matrix for each expert, and of a Biased one, ExpertMatrices further on, stacks of their biases.
const (
	ExpertGate = iota // [experts, ffn, in], biases [experts, 1, ffn]
	ExpertUp          // [experts, ffn, in], biases [experts, 1, ffn]
	ExpertDown        // [experts, in, ffn], biases [experts, 1, in]
	ExpertMatrices
)

// ManyType is the dtype that activations of many rows are multiplied in.
func (o MoE) ManyType() Type {
	if o.Rounds {
		return Q8
	}
	return o.ActType
}

// Name implements Op.
func (MoE) Name() string { return "MoE" }

// Attrs implements Op.
func (o MoE) Attrs() string {
	s := fmt.Sprintf("%d of %d, %s", o.TopK, o.Experts, o.Fn)
	if o.NoRenorm {
		s += ", not renormalised"
	}
	if o.Shares {
		s += ", by shares"
	}
	if o.Clamp != 0 {
		s += fmt.Sprintf(", clamped at %g", o.Clamp)
	}
	if o.Held > 0 {
		s += fmt.Sprintf(", experts %d to %d", o.First, o.First+o.Held-1)
	}
	if o.Sources > 1 {
		s += fmt.Sprintf(" for rows of %d devices", o.Sources)
	}
	if o.Cached > 0 {
		s += fmt.Sprintf(", %d cached elsewhere", o.Cached)
	}
	if o.Of > 0 {
		s += fmt.Sprintf(", slots for %d", o.Of)
	}
	if o.NoDownBias {
		s += ", no down bias"
	}
	if o.ActType != F32 {
		s += ", activations in " + o.ActType.String()
	}
	if o.Rounds {
		s += ", of many rows in " + Q8.String()
	}
	return s
}

// String describes the block.
func (o MoE) String() string { return o.Attrs() }

// held is how many experts the node has the weights of.
func (o MoE) held() int {
	if o.Held > 0 {
		return o.Held
	}
	return o.Experts
}

// Infer implements Op: x [rows, in], scores [rows, experts], the weights above → [rows, in].
func (o MoE) Infer(n *Node) ([]Value, error) {
	weights := ExpertMatrices
	if o.Biased {
		weights *= 2
	}
	if err := arity(n, 2, weights, weights); err != nil {
		return nil, err
	}
	x, scores := n.In[0], n.In[1]
	if err := matrix(scores); err != nil {
		return nil, err
	}
	if x.Cache != nil || (x.Type == Q8) != (o.ActType == Q8) {
		return nil, fmt.Errorf("%s is [%s, %s] %s, and products of inputs in %s are wanted", x.Name, x.Rows, x.Axis, x.Type, o.ActType)
	}
	if o.TopK < 1 || o.TopK > o.Experts || scores.Axis.Len() != o.Experts || scores.Rows != x.Rows {
		return nil, fmt.Errorf("%d of %d experts are wanted by scores [%s, %s]", o.TopK, o.Experts, scores.Rows, scores.Axis)
	}
	if o.Cached < 0 || o.Cached > o.Experts || o.Of > 0 && o.Of < o.Experts || (o.Cached > 0 || o.Of > 0) && !o.Shares {
		return nil, fmt.Errorf("%d of %d experts are cached elsewhere, and they are slots for %d; shares say which a row passes", o.Cached, o.Experts, o.Of)
	}
	if o.First < 0 || o.First+o.held() > o.Experts {
		return nil, fmt.Errorf("experts %d to %d are held of %d", o.First, o.First+o.held()-1, o.Experts)
	}
	if err := whole(scores); err != nil {
		return nil, err
	}
	ffn := n.Weights[ExpertGate].Out.Len()
	for i, w := range n.Weights {
		out, in := ffn, x.Axis.Len()
		if i%ExpertMatrices == ExpertDown {
			out, in = in, out
		}
		if i >= ExpertMatrices { // a bias
			out, in = 1, out
		}
		if w.Matrices() != o.held() || w.Out.Len() != out || w.In.Len() != in {
			return nil, fmt.Errorf("weight %s is %d × %d × %d and %d × %d × %d is wanted", w.Name, w.Matrices(), w.Out.Len(), w.In.Len(), o.held(), out, in)
		}
	}
	partial := n.Weights[ExpertGate].Out.Shards > 0 || o.Held > 0 && o.Sources <= 1
	return []Value{{Rows: x.Rows, Axis: x.Axis, Type: o.To, Partial: partial}}, nil
}

// Work implements Op. Which experts a step needs, only its scores say: as many are counted as even chances would reach.
func (o MoE) Work(n *Node, s *Step) Work {
	rows := int64(s.Rows(n.In[0].Rows))
	hidden, ffn := int64(n.In[0].Axis.Len()), int64(n.Weights[ExpertGate].Out.Len())
	perNumber := o.Fn.flops() + 1
	if o.Clamp != 0 {
		perNumber = Silu.flops() + 6 // three bounds, alpha, one added, product
	}
	expert := 6*hidden*ffn + ffn*perNumber + 2*hidden // the products, the gate, the share and the sum
	if o.Biased {
		expert += 2*ffn + hidden
	}
	if o.ActType == Q8 {
		expert += 4*ffn + 2*ffn/Q8Block // see Quantize
	}
	routing := int64(o.Experts) + 3*int64(o.TopK) // a comparison each; exponential, sum and division of the chosen
	if o.NoRenorm {
		routing = 3*int64(o.Experts) + int64(o.TopK) // comparison, exponential and sum of all
	}
	if o.Shares {
		routing = int64(o.Experts)
	}
	w := traffic(n, s, rows*routing+expert*int64(math.Round(o.Passes(rows))))
	w.WeightBytes = int64(math.Round(float64(w.WeightBytes) * o.Reached(rows)))
	return w
}

// Passes is how often a row of those here, or of other devices, passes one of the held experts, if chances are even.
func (o MoE) Passes(rows int64) float64 {
	return float64(rows) * float64(max(o.Sources, 1)) * float64(o.TopK) * float64(o.held()-o.Cached) / float64(max(o.Experts, o.Of))
}

// Reached is the part of the held experts that some row passes, if each row takes its experts with even chances.
func (o MoE) Reached(rows int64) float64 {
	here := 1 - float64(o.Cached)/float64(o.Experts)
	return here * (1 - math.Pow(1-float64(o.TopK)/float64(max(o.Experts, o.Of)), float64(rows)*float64(max(o.Sources, 1))))
}

// MoE adds the block; weights are as Infer says.
func (b *Builder) MoE(name string, x, scores *Value, o MoE, weights []*Weight) *Value {
	o.To = b.act
	return b.Emit(name, o, []*Value{x, scores}, weights...)[0]
}
