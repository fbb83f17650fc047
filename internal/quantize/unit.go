package quantize

import (
	"fmt"
	"math"
	"slices"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// place is where in the model's file a weight's rows lie.
type place struct {
	tensor string
	rows   []int // of the tensor, one for each of the weight's
}

// placeOf finds the tensor that the rows of a weight's first matrix are cut from.
func placeOf(w *graph.Weight) (place, error) {
	all, err := placesOf(w)
	if err != nil {
		return place{}, err
	}
	return all[0], nil
}

// placesOf finds where in the model's file the rows of each of a weight's matrices lie.
func placesOf(w *graph.Weight) ([]place, error) {
	var all []place
	rows := w.Out.Len()
	add := func(r recipe.Recipe, from int) error {
		of, row := recipe.RowsOf(r)
		t, ok := of.(recipe.Tensor)
		if !ok {
			return fmt.Errorf("quantize: weight %s is made of the file's tensors as %s, and only tensors of floats, and rows of them, can be quantised", w.Name, w.Recipe)
		}
		p := place{tensor: string(t), rows: make([]int, rows)}
		for i := range p.rows {
			p.rows[i] = row(from + i)
		}
		all = append(all, p)
		return nil
	}
	if stack, ok := w.Recipe.(recipe.Stack); ok {
		for _, one := range stack {
			if err := add(one, 0); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	for i := range w.Matrices() {
		if err := add(w.Recipe, i*rows); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// layerTensor is a tensor of the file that linear layers read, in floats as it is being worked on.
type layerTensor struct {
	name string
	quant.Tensor
	weights []*graph.Weight
	places  []place
}

// tensorsOf lists the tensors that the linear layers of some inputs are, in their order.
func (q *job) tensorsOf(in *input) ([]*layerTensor, error) {
	var all []*layerTensor
	for _, n := range in.nodes {
		w := n.Weights[0]
		p, err := placeOf(w)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(t *layerTensor) bool { return t.name == p.tensor })
		if i < 0 {
			t, ok := q.dir.Tensor(p.tensor)
			if !ok {
				return nil, fmt.Errorf("quantize: the file has no tensor %s", p.tensor)
			}
			i = len(all)
			all = append(all, &layerTensor{name: p.tensor, Tensor: t})
		}
		all[i].weights, all[i].places = append(all[i].weights, w), append(all[i].places, p)
	}
	for _, t := range all {
		if err := t.covered(); err != nil {
			return nil, err
		}
		if err := q.o.Grid.fits(t.name, t.Cols); err != nil && q.o.usesGrid() {
			return nil, err
		}
	}
	return all, nil
}

// covered checks that linear layers read all rows of the tensor.
func (t *layerTensor) covered() error {
	seen := make([]bool, t.Rows)
	for _, p := range t.places {
		for _, r := range p.rows {
			seen[r] = true
		}
	}
	if slices.Contains(seen, false) {
		return fmt.Errorf("quantize: row %d of tensor %s is read by no linear layer of this input, so that it is not known what its errors do", slices.Index(seen, false), t.name)
	}
	return nil
}

// floats is the tensor's numbers. NaN and Inf are refused.
func (t *layerTensor) floats() ([]float32, error) {
	x := t.Floats()
	for i, v := range x {
		if d := float64(v); math.IsNaN(d) || math.IsInf(d, 0) {
			return nil, fmt.Errorf("quantize: number %d of row %d of tensor %s is %g; the file is damaged", i%t.Cols, i/t.Cols, t.name, v)
		}
	}
	return x, nil
}

// fits says why rows of a tensor cannot be on the grid; nil when they can.
func (g Grid) fits(name string, cols int) error {
	if group := g.group(cols); cols%group != 0 {
		return fmt.Errorf("quantize: tensor %s has rows of %d numbers, which groups of %d do not divide; give a --group that does, such as 32, or 0 for whole rows", name, cols, group)
	}
	if cols%32 != 0 {
		return fmt.Errorf("quantize: tensor %s has rows of %d numbers; multiples of 32 can be packed", name, cols)
	}
	return nil
}
