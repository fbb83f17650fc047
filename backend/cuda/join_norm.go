package cuda

import (
	"math"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/packed"
	"github.com/ridge-llm/ridge/graph"
)

// In steps of few rows a normalisation between packed weights is no launch of its own. The products behind it read all of each row
// anyway, so they find its scale and weigh it themselves; the sum that an AddNorm makes is added by the product before it, which has it
// at hand:
//
//	Linear, AddNorm        in steps of few rows one launch, which writes the sum and not what it normalises to
//	MoE, AddNorm           the same; see join_experts.go
//	RMSNorm, Linear …      one launch
//
// In steps of some more, those of packed.NormRows, the product before leaves the rows weighed, and those behind scale their results. Steps of
// still more rows run the nodes one by one.

// fold is a normalisation that is done so.
type fold struct {
	rows   int            // the most there may be
	x      backend.Buffer // what is normalised
	weight driver.Ptr
	eps    float32

	scaled bool           // whether all that read it can also scale what a summed product made
	summed *packed.Kernel // for steps of rows that packed.NormRows: that product; nil if there is none
}

// findFolds gives each normalisation that can be folded, and what reads it, its fold.
func (d *Device) findFolds(all []*launch, readers map[*graph.Value]int) error {
	for _, l := range all {
		l.fold = nil // from a time before, if recorded graphs were forgotten since
	}
	for i, l := range all {
		f := &fold{}
		switch o := l.node.Op.(type) {
		case graph.RMSNorm:
			if o.PerGroup {
				continue
			}
			f.rows, f.x, f.eps = math.MaxInt, l.args.In[0], float32(o.Eps)
		case graph.AddNorm:
			f.rows, f.x, f.eps = d.sumRows(all[:i+1], readers), l.args.Out[0], float32(o.Eps)
		default:
			continue
		}
		y := l.node.Out[len(l.node.Out)-1]
		behind := d.readersOf(y, all[i+1:], readers[y], f)
		if f.rows == 0 || len(behind) == 0 {
			continue
		}
		f.scaled = !slices.ContainsFunc(behind, func(l *launch) bool {
			return !packed.FitsNormPrologue(d.loader, l.node.Out[0].Axis.Len(), l.node.In[0].Axis.Len())
		})
		var err error
		if f.weight, err = d.vector(l.args.Weights[0]); err != nil {
			return err
		}
		for _, r := range append(behind, l) {
			r.fold = f
		}
	}
	return nil
}

// foldRows is how many rows a product takes that does a neighbour's work as well.
func (d *Device) foldRows(l *launch) int {
	if _, ok := l.node.Op.(graph.Linear); !ok || l.node.In[0].Type != graph.BF16 || !streams(l.node) {
		return 0
	}
	w := l.args.Weights[0].(*weight)
	if !packs(w) {
		return 0 // a launch of its own costs less than what each of kernels/gemm/skinny's many blocks would have to read
	}
	return packed.FusedRows(d.loader, w.format, l.node.In[0].Axis.Len())
}

// sumRows is up to how many rows the last launch but one, a product or a block of experts, can add what the last, an AddNorm, does.
func (d *Device) sumRows(l []*launch, readers map[*graph.Value]int) int {
	if len(l) < 2 {
		return 0
	}
	product, sum := l[len(l)-2], l[len(l)-1]
	if _, ok := product.node.Op.(graph.MoE); ok {
		return d.sumExpertRows(product, sum, readers)
	}
	most := d.foldRows(product)
	if most == 0 {
		return 0
	}
	other := 1 - sum.summand(product)
	if other > 1 || product.fold != nil || readers[product.node.Out[0]] != 1 || sum.node.Out[0].Type != graph.BF16 {
		return 0
	}
	to, residual := sum.args.Out[0], sum.args.In[other]
	if overlap(to, product.args.In[0]) || overlap(to, residual) && to.Off != residual.Off {
		return 0
	}
	return most
}

// summand is which of a sum's two inputs a product makes; -1 if neither.
func (l *launch) summand(product *launch) int {
	for i, v := range l.node.In {
		if v == product.node.Out[0] {
			return i
		}
	}
	return -1
}

// readersOf finds the launches that read a normalised value, if all of them can read what a fold has instead, and lowers its rows to what
// they take. What they and those between them write must not lie where that does: the plan may think it is no longer needed.
func (d *Device) readersOf(y *graph.Value, l []*launch, count int, f *fold) (found []*launch) {
	for i, one := range l {
		if slices.Contains(one.node.In, y) {
			rows := d.foldRows(one)
			if rows == 0 {
				return nil
			}
			found, f.rows = append(found, one), min(f.rows, rows)
		}
		if one.writes(f.x) {
			return nil
		}
		if len(found) == count { // a function behind the last may be joined with it
			if i+1 < len(l) && l[i+1].writes(f.x) {
				return nil
			}
			return found
		}
	}
	return nil
}

// writes reports whether what a launch writes lies over a buffer.
func (l *launch) writes(b backend.Buffer) bool {
	return overlap(l.args.Scratch, b) || slices.ContainsFunc(l.args.Out, func(out backend.Buffer) bool { return overlap(out, b) })
}

// foldedRows is up to how many rows layers normalise themselves.
func foldedRows(layers []*launch) int {
	if f := layers[0].fold; f != nil {
		return f.rows
	}
	return -1
}

// joinSum joins a product and the sum behind it, whose normalisation is folded.
func (d *Device) joinSum(l []*launch, _ map[*graph.Value]int) (*launch, int, error) {
	if len(l) < 2 || l[1].fold == nil {
		return nil, 0, nil
	}
	if _, ok := l[1].node.Op.(graph.AddNorm); !ok {
		return nil, 0, nil
	}
	product, sum := l[0], l[1]
	few, err := d.bindSum(product, sum)
	rows, f := product.node.Out[0].Rows, sum.fold
	return &launch{text: product.text + " (with the sum)", put: func(s *step) error {
		switch m := s.rows(rows); {
		case m <= f.rows:
			return few.Launch(d.stream, m)
		case f.summed != nil && packed.NormRows(m):
			return f.summed.Launch(d.stream, m)
		}
		if err := product.put(s); err != nil {
			return err
		}
		return sum.put(s)
	}}, 2, err
}

// bindSum binds a product whose result is added to what a sum adds it to: for few rows, and for more if all behind it can do their part.
func (d *Device) bindSum(product, sum *launch) (*packed.Kernel, error) {
	x, residual, to, normed := product.args.In[0], sum.args.In[1-sum.summand(product)], sum.args.Out[0], sum.args.Out[1]
	in, out, w, f := product.node.In[0], product.node.Out[0], product.args.Weights[0].(*weight), sum.fold
	bias, err := d.bias(product.args)
	if err != nil {
		return nil, err
	}
	on, err := d.slabOnDevice(w)
	if err != nil {
		return nil, err
	}
	p := packed.Problem{
		X: at(x), Rows: int(x.Len / in.RowBytes()), K: in.Axis.Len(), Parts: []packed.Part{{W: on, Bias: bias, Y: at(to), N: out.Axis.Len()}}, Residual: at(residual),
	}
	if f.scaled && !overlap(normed, x) && (!overlap(normed, residual) || normed.Off == residual.Off) {
		if f.summed, err = packed.NewNormEpilogue(d.loader, w.format, p, f.weight, at(normed), d.scratch()); err != nil {
			return nil, err
		}
	}
	return packed.NewFused(d.loader, w.format, p)
}

// joinNorm joins a normalisation that is folded and what reads it.
func (d *Device) joinNorm(l []*launch, readers map[*graph.Value]int) (*launch, int, error) {
	if l[0].fold == nil {
		return nil, 0, nil
	}
	if _, ok := l[0].node.Op.(graph.RMSNorm); !ok {
		return nil, 0, nil
	}
	norm := l[0]
	next, n, err := d.joinOne(l[1:], readers)
	if err != nil {
		return nil, 0, err
	}
	rows, most := norm.node.Out[0].Rows, norm.fold.rows
	return &launch{text: next.text + " (with the normalisation)", put: func(s *step) error {
		if s.rows(rows) > most {
			if err := norm.put(s); err != nil {
				return err
			}
		}
		return next.put(s)
	}}, n + 1, nil
}
