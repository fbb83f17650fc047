package cuda

import (
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/moe"
	"github.com/ridge-llm/ridge/graph"
)

// A block of experts has a normalisation before it and one behind it, which are joined with its own launches:
//
//	AddNorm, Linear of it that scores experts     in steps of few rows one launch
//	MoE, AddNorm                                  what adds up the experts' results does the rest, or, of a row that is
//	                                              computed by itself, adds it: those behind normalise (join_norm.go)

// scoredRows is up to how many rows are normalised and scored in one launch: each is normalised by several blocks.
const scoredRows = 32

// joinScores joins a sum with its normalisation and the router behind it.
func (d *Device) joinScores(l []*launch, _ map[*graph.Value]int) (*launch, int, error) {
	if len(l) < 3 || l[0].fold != nil {
		return nil, 0, nil
	}
	norm, isNorm := l[0].node.Op.(graph.AddNorm)
	_, isLinear := l[1].node.Op.(graph.Linear)
	_, isMoE := l[2].node.Op.(graph.MoE)
	if !isNorm || !isLinear || !isMoE {
		return nil, 0, nil
	}
	sum, router := l[0], l[1]
	x, w := sum.node.Out[0], router.args.Weights[0].(*weight)
	written := append(slices.Clone(sum.args.Out), router.args.Out[0])
	switch {
	case router.node.In[0] != sum.node.Out[1] || l[2].node.In[1] != router.node.Out[0],
		x.Type != graph.BF16 || router.node.Out[0].Type != graph.BF16 || packs(w) || !moe.ScoresFit(x.Axis.Len()),
		slices.ContainsFunc(written, func(b backend.Buffer) bool { return overlap(b, sum.args.In[0]) || overlap(b, sum.args.In[1]) }):
		return nil, 0, nil
	}
	p := moe.Scores{
		X: at(sum.args.In[0]), Add: at(sum.args.In[1]), Sum: at(sum.args.Out[0]), Y: at(sum.args.Out[1]), Scores: at(router.args.Out[0]),
		N: int32(x.Axis.Len()), Experts: int32(router.node.Out[0].Axis.Len()), Eps: float32(norm.Eps),
	}
	var err error
	if p.Norm, err = d.vector(sum.args.Weights[0]); err != nil {
		return nil, 0, err
	}
	if p.W, err = d.resident(w, graph.BF16); err != nil {
		return nil, 0, err
	}
	if p.Bias, err = d.bias(router.args); err != nil {
		return nil, 0, err
	}
	few, err := moe.NewScorer(d.loader, p)
	if err != nil {
		return nil, 0, err
	}
	return &launch{text: router.text + " (with the sum and its normalisation)", put: func(s *step) error {
		if m := s.rows(x.Rows); m <= scoredRows {
			return few.Launch(d.stream, m)
		}
		if err := sum.put(s); err != nil {
			return err
		}
		return router.put(s)
	}}, 2, nil
}

// normsExperts reports whether a block of experts can be joined with the sum and the normalisation behind it.
func normsExperts(experts, sum *launch, readers map[*graph.Value]int) bool {
	_, isMoE := experts.node.Op.(graph.MoE)
	_, isNorm := sum.node.Op.(graph.AddNorm)
	if !isMoE || !isNorm || !tensorExperts(experts.node) {
		return false
	}
	y, other := experts.node.Out[0], 1-sum.summand(experts)
	return other <= 1 && readers[y] == 1 && moe.NormedFits(y.Axis.Len()) &&
		!slices.ContainsFunc(sum.args.Out, func(b backend.Buffer) bool { return overlap(b, experts.args.Scratch) || overlap(b, sum.args.In[other]) })
}

// sumExpertRows is sumRows for a block of experts: rows that are computed by themselves.
func (d *Device) sumExpertRows(experts, sum *launch, readers map[*graph.Value]int) int {
	if !normsExperts(experts, sum, readers) || overlap(sum.args.Out[0], experts.args.In[1]) { // scores are read until the end
		return 0
	}
	gated, down := expertSizes(experts.node)
	return moe.SingleRows(d.loader, experts.node.Op.(graph.MoE), gated, down)
}

// joinExperts joins a block of experts with the sum and the normalisation behind it, or with the sum alone in steps of few rows, if the normalisation is folded.
func (d *Device) joinExperts(l []*launch, readers map[*graph.Value]int) (*launch, int, error) {
	if len(l) < 2 || !normsExperts(l[0], l[1], readers) {
		return nil, 0, nil
	}
	experts, sum := l[0], l[1]
	y := experts.node.Out[0]
	to := moe.Normed{
		Residual: at(sum.args.In[1-sum.summand(experts)]), Total: at(sum.args.Out[0]), Y: at(sum.args.Out[1]), Eps: float32(sum.node.Op.(graph.AddNorm).Eps),
	}
	var err error
	if to.Weight, err = d.vector(sum.args.Weights[0]); err != nil {
		return nil, 0, err
	}
	b, err := d.bindExperts(experts.node, experts.args, &to)
	if err != nil {
		return nil, 0, err
	}
	folded := foldedRows(l[1:])
	return &launch{text: experts.text + " (with the sum and its normalisation)", put: func(s *step) error {
		if r := s.rows(y.Rows); r > folded && b.alone(r) {
			if err := experts.put(s); err != nil {
				return err
			}
			return sum.put(s)
		}
		return b.launch(d.stream, s)
	}}, 2, nil
}
