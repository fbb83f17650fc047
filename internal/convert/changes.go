package convert

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/weights/adapter"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// lowRank is what an adapter has for a weight, as numbers.
type lowRank struct {
	*graph.LowRank
	weight *graph.Weight
	a, b   []float32
	rows   []float32
	by     float32 // what the adapter's changes are multiplied by
}

// change is what an adapter changes of a tensor of the model's file.
type change struct {
	of     *lowRank
	row    map[int]int // rows of the tensor, or numbers of a vector, and which of the weight's each is
	bias   bool        // the tensor is the bias beside the weight
	turned bool        // the weight is the tensor transposed
}

// changes is what adapters change, by the names of the tensors of the model's file.
type changes map[string][]change

// place is where a recipe has its rows from: a tensor, or what makes one of packed tensors, and which of its rows row r is.
func place(r recipe.Recipe) (tensor string, row func(int) int, turned bool) {
	of, row := recipe.RowsOf(r)
	if t, ok := of.(recipe.Transpose); ok {
		tensor, within, turned := place(t.Of)
		return tensor, func(i int) int { return within(row(i)) }, !turned
	}
	return of.String(), row, false
}

// fit finds what an adapter changes of a model.
func fit(b *modeldir.Dir, path string) (*adapter.Adapter, map[*graph.Weight]*graph.LowRank, error) {
	a, err := adapter.Open(path)
	if err != nil {
		return nil, nil, err
	}
	all, err := fitted(b, a)
	if err != nil {
		a.Close()
	}
	return a, all, err
}

func fitted(b *modeldir.Dir, a *adapter.Adapter) (map[*graph.Weight]*graph.LowRank, error) {
	g, err := b.Model.Graph(model.Options{})
	if err != nil {
		return nil, err
	}
	if g, err = pass.Run(g, "lora", pass.Options{Layout: pass.OneDevice, Adapters: pass.Adapters{Slots: 1, Rank: max(a.Rank, 1)}}); err != nil {
		return nil, err
	}
	var slots []*graph.Weight
	for _, w := range g.Weights {
		if w.Slots != nil {
			slots = append(slots, w)
		}
	}
	return b.Model.Adapt(a, slots)
}

// add adds what an adapter changes, multiplied by a scale.
func (c changes) add(b *modeldir.Dir, all map[*graph.Weight]*graph.LowRank, by float32) error {
	if b.Model.Config.Tied {
		if err := checkTied(all); err != nil {
			return err
		}
	}
	for w, l := range all {
		if w.Tensor == headTensor && b.Model.Config.Tied {
			continue // the same rows as those of the embeddings
		}
		x := &lowRank{LowRank: l, weight: w, by: by}
		if l.Rank() > 0 {
			x.a, x.b = l.A.Floats(), l.B.Floats()
		}
		if len(l.Rows.Data) > 0 {
			x.rows = l.Rows.Floats()
		}
		c.put(w.Slots.Of, w.Out.Len(), change{of: x})
		if l.Bias == nil && (w.Slots.Bias == nil || l.Columns == nil && l.Rows.Data == nil) {
			continue
		}
		if w.Slots.Bias == nil {
			return fmt.Errorf("convert: the adapter adds a bias to %s, which has none in the model; a merged file cannot hold it", w.Slots.Of.Name)
		}
		c.put(w.Slots.Bias, w.Out.Len(), change{of: x, bias: true})
	}
	return nil
}

const headTensor = "output.weight"

// checkTied refuses an adapter that makes two matrices of one that head and embeddings share.
func checkTied(all map[*graph.Weight]*graph.LowRank) error {
	var table, head graph.LowRank
	for w, l := range all {
		if w.Slots.Table {
			table = *l
		} else if w.Tensor == headTensor {
			head = *l
		}
	}
	if table.Rank()+head.Rank() > 0 || !slices.Equal(table.Indices, head.Indices) || string(table.Rows.Data) != string(head.Rows.Data) {
		return errors.New("convert: the model's head is its table of embeddings, and the adapter changes one of them apart from the other; a merged file cannot hold that")
	}
	return nil
}

// put notes a change of a weight of n rows, or numbers.
func (c changes) put(of *graph.Weight, n int, x change) {
	tensor, row, turned := place(of.Recipe)
	x.row, x.turned = map[int]int{}, turned
	for o := range n {
		x.row[row(o)] = o
	}
	c[tensor] = append(c[tensor], x)
}

// rows changes rows from one on, which a recipe makes of the model's file; of a vector its numbers.
func (c changes) rows(r recipe.Recipe, numbers []float32, cols, from int) error {
	tensor, row, turned := place(r)
	for _, x := range c[tensor] {
		if x.turned != turned {
			return fmt.Errorf("convert: tensor %s lies transposed in the model's file; write GGUF", tensor)
		}
		if x.bias {
			for i := range numbers {
				if o, ok := x.row[row(i)]; ok {
					x.of.number(&numbers[i], o)
				}
			}
			continue
		}
		for at := 0; at < len(numbers); at += cols {
			if o, ok := x.row[row(from+at/cols)]; ok {
				x.of.apply(numbers[at:at+cols], o)
			}
		}
	}
	return nil
}

// replaced is which of the adapter's rows takes the place of row o.
func (l *lowRank) replaced(o int) (int, bool) {
	if l.rows == nil {
		return 0, false
	}
	if l.Indices == nil {
		return o, true
	}
	return slices.BinarySearch(l.Indices, int32(o))
}

// apply changes row o of the weight, as graph.LowRank says of what is made with it.
func (l *lowRank) apply(row []float32, o int) {
	now := slices.Clone(row)
	if l.Columns != nil {
		for i := range now {
			now[i] *= l.Columns[o]
		}
	}
	if i, ok := l.replaced(o); ok {
		copy(now, l.rows[i*len(row):])
	}
	rank := l.Rank()
	for j := range rank {
		if l.weight.Slots.Table {
			f := l.Scale * l.a[o*rank+j]
			for i := range now {
				now[i] += f * l.b[i*rank+j]
			}
			continue
		}
		f := l.Scale * l.b[o*rank+j]
		for i, x := range l.a[j*len(row) : (j+1)*len(row)] {
			now[i] += f * x
		}
	}
	for i := range row {
		row[i] += l.by * (now[i] - row[i])
	}
}

// number changes number o of the bias.
func (l *lowRank) number(b *float32, o int) {
	now := *b
	if l.Columns != nil {
		now *= l.Columns[o]
	}
	if _, ok := l.replaced(o); ok {
		now = 0
	}
	if l.Bias != nil {
		now += l.Bias[o]
	}
	*b += l.by * (now - *b)
}
