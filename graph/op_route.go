package graph

import (
	"fmt"
	"strings"
)

// Route turns a router's scores into each expert's share of a row: 0 for all but the TopK that are chosen. An expert's probability is
// softmax over all scores, or the sigmoid of its own (Sigmoid). Experts are chosen by their probability, plus the bias of a weight if
// there is one, which balances how often they are (DeepSeek-V3, arXiv:2412.19437); of equal ones the first. Shares are the
// probabilities without that bias, renormalised over the chosen unless NoRenorm, times Scale.
//
// With Mixer, two experts are chosen one after the other (SparseMixer, arXiv:2310.00811; Phi-3.5-MoE): each is the best that is left, and
// its share is its softmax over those left whose scores s are within Mixer of it: best - s ≤ Mixer × max(|s|, best).
//
// With Groups the experts are in groups of the same size, one behind the other, and those outside the TopGroups best groups count as 0
// when experts are chosen. A group is as good as its best expert or, with BestTwo, as the sum of its best two.
type Route struct {
	simple
	TopK              int
	Sigmoid           bool
	NoRenorm          bool
	Scale             float64 // 0: 1
	Groups, TopGroups int     // 0: no groups
	BestTwo           bool
	Mixer             float64 // 0: none
}

// Name implements Op.
func (Route) Name() string { return "Route" }

// Attrs implements Op.
func (o Route) Attrs() string {
	parts := []string{fmt.Sprintf("%d by softmax", o.TopK)}
	if o.Sigmoid {
		parts[0] = fmt.Sprintf("%d by sigmoid", o.TopK)
	}
	if o.Groups > 0 {
		by := "the best expert"
		if o.BestTwo {
			by = "the sum of the best two"
		}
		parts = append(parts, fmt.Sprintf("in %d of %d groups by %s", o.TopGroups, o.Groups, by))
	}
	if o.Mixer != 0 {
		parts = append(parts, fmt.Sprintf("one after the other within %g", o.Mixer))
	}
	if o.NoRenorm {
		parts = append(parts, "not renormalised")
	}
	if o.Scale != 0 {
		parts = append(parts, fmt.Sprintf("times %g", o.Scale))
	}
	return strings.Join(parts, ", ")
}

// Infer implements Op: scores [rows, experts], bias? [1, experts] → shares [rows, experts] f32.
func (o Route) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 0, 1); err != nil {
		return nil, err
	}
	x := n.In[0]
	if err := matrix(x); err != nil {
		return nil, err
	}
	if err := whole(x); err != nil {
		return nil, err
	}
	experts := x.Axis.Len()
	if len(n.Weights) == 1 {
		if err := vector(n.Weights[0], experts); err != nil {
			return nil, err
		}
	}
	if err := o.Check(experts); err != nil {
		return nil, err
	}
	return []Value{{Rows: x.Rows, Axis: x.Axis, Type: F32}}, nil
}

// Check says why so many experts cannot be chosen from so; nil if they can.
func (o Route) Check(experts int) error {
	if o.TopK < 1 || o.TopK > experts {
		return fmt.Errorf("%d of %d experts cannot be chosen", o.TopK, experts)
	}
	if o.Mixer != 0 && (o.TopK != 2 || o.Sigmoid || o.Groups != 0 || o.Scale != 0 || !o.NoRenorm) {
		return fmt.Errorf("SparseMixer chooses 2 experts by softmax without groups or scaling, not %d (%s)", o.TopK, o.Attrs())
	}
	if o.Groups == 0 {
		return nil
	}
	if experts%o.Groups != 0 || o.TopGroups < 1 || o.TopGroups > o.Groups || o.BestTwo && experts < 2*o.Groups {
		return fmt.Errorf("%d experts cannot be chosen from in %d of %d groups", experts, o.TopGroups, o.Groups)
	}
	return nil
}

// Work implements Op. All experts: maximum, exponential, sum and division, or the sigmoid's three; the bias; a comparison each for
// groups and for experts; the chosen: sum and division, and the scaling.
func (o Route) Work(n *Node, s *Step) Work {
	experts := int64(n.In[0].Axis.Len())
	if o.Mixer != 0 { // twice, all: a comparison, magnitude, bound, difference and division, exponential and sum; the chosen's division
		return traffic(n, s, int64(s.Rows(n.In[0].Rows))*(14*experts+2))
	}
	perRow := 4 * experts
	if o.Sigmoid {
		perRow = 3 * experts
	}
	if len(n.Weights) == 1 {
		perRow += experts
	}
	if o.Groups > 0 {
		perRow += experts
	}
	perRow += experts
	if !o.NoRenorm {
		perRow += 2 * int64(o.TopK)
	}
	if o.Scale != 0 {
		perRow += int64(o.TopK)
	}
	return traffic(n, s, int64(s.Rows(n.In[0].Rows))*perRow)
}

// Route adds the routing; bias may be nil.
func (b *Builder) Route(name string, scores *Value, o Route, bias *Weight) *Value {
	var ws []*Weight
	if bias != nil {
		ws = append(ws, bias)
	}
	return b.Emit(name, o, []*Value{scores}, ws...)[0]
}
