package quantize

import (
	"context"
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// Experts' matrices are rounded for the rows that their router sends them: the inputs of a mixture are kept, and each expert in turn has its gate and up
// matrices rounded for its rows of them, and its down matrix for what these make.

// mixture is a node of experts with where their matrices are.
type mixture struct {
	node   *graph.Node
	places [graph.ExpertMatrices][]place // of each expert
}

// mixtureOf finds where the matrices of a node of experts lie; why they cannot be rounded, if they cannot.
func (q *job) mixtureOf(n *graph.Node) (m mixture, why string) {
	o := n.Op.(graph.MoE)
	if o.Biased || o.Clamp != 0 {
		return m, "have biases or bounds"
	}
	m.node = n
	for i, w := range n.Weights {
		places, err := placesOf(w)
		if err != nil {
			return m, "are not tensors, or rows of tensors, of the file as they are"
		}
		t, ok := q.dir.Tensor(places[0].tensor)
		if rows := len(places[0].rows); !ok || t.Rows != rows && t.Rows != rows*len(places) {
			return m, fmt.Sprintf("share tensor %s with others", places[0].tensor)
		}
		if q.o.usesGrid() {
			if err := q.o.Grid.fits(places[0].tensor, t.Cols); err != nil {
				return m, fmt.Sprintf("have rows of %d numbers, which do not divide into groups", t.Cols)
			}
		}
		m.places[i] = places
	}
	return m, ""
}

// tensors lists the tensors that the matrices are in.
func (m *mixture) tensors() (names []string) {
	for _, places := range m.places {
		for _, p := range places {
			if !slices.Contains(names, p.tensor) {
				names = append(names, p.tensor)
			}
		}
	}
	return names
}

// findMixtures notes the experts of all blocks. SmoothQuant leaves them: nothing scales the inputs of all experts alike.
func (q *job) findMixtures() {
	if q.o.Method == SmoothQuant {
		return
	}
	for _, n := range q.g.Nodes {
		if _, ok := n.Op.(graph.MoE); !ok || n.Layer == graph.NoLayer {
			continue
		}
		m, why := q.mixtureOf(n)
		if why != "" {
			q.notes = append(q.notes, fmt.Sprintf("the experts of layer %d stay as they are: they %s", n.Layer, why))
			continue
		}
		b := &q.blocks[n.Layer+1]
		b.mixtures = append(b.mixtures, m)
	}
}

// mixture rounds the matrices of a node of experts.
func (q *job) mixture(ctx context.Context, b *block, m *mixture) error {
	x, scores, err := q.inputsOf(ctx, b, m.node)
	if err != nil {
		return err
	}
	all := map[string][]made{}
	for e, chosen := range chosenRows(m.node.Op.(graph.MoE), scores) {
		in := x.of(chosen)
		s := q.statsOf(in)
		var now [graph.ExpertMatrices]made
		for i := range graph.ExpertMatrices {
			if i == graph.ExpertDown {
				hidden, err := q.gated(ctx, m.node, in, now[graph.ExpertGate], now[graph.ExpertUp])
				if err != nil {
					return err
				}
				s = q.statsOf(hidden)
			}
			p := m.places[i][e]
			t, w, err := q.expertOf(p, e)
			if err != nil {
				return err
			}
			if now[i], err = q.round(b, t, w, s); err != nil {
				return err
			}
			all[p.tensor] = append(all[p.tensor], now[i])
		}
	}
	for _, name := range m.tensors() {
		q.put(name, stacked(all[name]))
	}
	return nil
}

// expertOf is one expert's matrix, and its numbers.
func (q *job) expertOf(p place, e int) (*layerTensor, []float32, error) {
	t, ok := q.dir.Tensor(p.tensor)
	if !ok {
		return nil, nil, fmt.Errorf("quantize: the file has no tensor %s", p.tensor)
	}
	l := &layerTensor{name: p.tensor, Tensor: t.RowSpan(p.rows[0], p.rows[0]+len(p.rows))}
	if t.Rows != len(p.rows) {
		l.name = fmt.Sprintf("%s[%d]", p.tensor, e)
	}
	w, err := l.floats()
	return l, w, err
}

// inputsOf runs a block up to a node of experts: what they read, and their scores.
func (q *job) inputsOf(ctx context.Context, b *block, n *graph.Node) (x, scores rows, err error) {
	g, err := q.part(b.in, n.In)
	if err != nil {
		return x, scores, err
	}
	tokens, _ := q.runner.tokens()
	by := map[int]rows{}
	for _, v := range n.In {
		by[v.ID] = rows{v.Axis.Len(), make([]float32, tokens*v.Axis.Len())}
	}
	err = q.runner.run(ctx, g, func(id, row int, x []float32) error {
		copy(by[id].data[row*by[id].width:], x)
		return nil
	})
	return by[n.In[0].ID], by[n.In[1].ID], err
}

// chosenRows is, for each expert, the rows that pass it: those of whose scores its is among the highest, of equal ones the first.
func chosenRows(o graph.MoE, scores rows) [][]int {
	chosen := make([][]int, o.Experts)
	for r := range len(scores.data) / scores.width {
		row := slices.Clone(scores.data[r*scores.width : (r+1)*scores.width])
		taken := make([]bool, len(row))
		for range o.TopK {
			best := -1
			for e, v := range row {
				if !taken[e] && (best < 0 || v > row[best]) {
					best = e
				}
			}
			taken[best] = true
			chosen[best] = append(chosen[best], r)
		}
	}
	return chosen
}

// of is some of the rows.
func (v rows) of(which []int) rows {
	some := rows{v.width, make([]float32, 0, len(which)*v.width)}
	for _, r := range which {
		some.data = append(some.data, v.data[r*v.width:(r+1)*v.width]...)
	}
	return some
}

// statsOf gathers what methods need of rows of inputs.
func (q *job) statsOf(x rows) *stats {
	s := newStats(x.width, q.precision())
	n := len(x.data) / x.width
	for from := 0; from < n; from += stepTokens {
		s.add(q.engine, x.data[from*x.width:min(from+stepTokens, n)*x.width], max(1, n/sampleRows))
	}
	return s
}

// gatedFiles are an expert's gate and up matrices under the names of their numbers.
type gatedFiles map[string]quant.Tensor

func (f gatedFiles) Tensor(name string) (quant.Tensor, bool) { t, ok := f[name]; return t, ok }

func (f gatedFiles) Bytes(string) (recipe.Raw, bool) { return recipe.Raw{}, false }

func (f gatedFiles) Release([]byte) {}

// gated is what an expert's rounded gate and up matrices make of rows of inputs: the inputs of its down matrix.
func (q *job) gated(ctx context.Context, n *graph.Node, in rows, gate, up made) (rows, error) {
	files := gatedFiles{"gate": gate.tensor(), "up": up.tensor()}
	b := graph.NewBuilder("expert", func(name string) (graph.Stored, bool) {
		t, ok := files[name]
		return graph.Stored{Format: t.Format, Rows: t.Rows, Cols: t.Cols, Recipe: recipe.Tensor(name)}, ok
	}, graph.F32, graph.F32)
	w := n.Weights[graph.ExpertGate]
	x := b.Emit("x", graph.Recv{Rows: graph.Tokens, Axis: w.In, Type: graph.F32}, nil)[0]
	h := b.ActMul("gated", b.Linear("g", x, b.Weight("gate", w.Out, w.In), nil), b.Linear("u", x, b.Weight("up", w.Out, w.In), nil), n.Op.(graph.MoE).Fn)
	g, err := b.Finish(b.Emit("sent", graph.Send{}, []*graph.Value{h})[0])
	if err != nil {
		return rows{}, err
	}
	tokens := len(in.data) / in.width
	out := rows{w.Out.Len(), make([]float32, tokens*w.Out.Len())}
	r := &runner{dev: q.runner.dev, files: files, values: map[*graph.Value]rows{{ID: 0}: in}}
	for left := tokens; left > 0; left -= stepTokens {
		r.seqs = append(r.seqs, make([]int32, min(left, stepTokens)))
	}
	if tokens == 0 {
		return out, nil
	}
	return out, r.run(ctx, g, func(_, row int, x []float32) error {
		copy(out.data[row*out.width:], x)
		return nil
	})
}

// stacked is matrices one below the other.
func stacked(all []made) made {
	if len(all) == 1 {
		return all[0]
	}
	var r made
	for _, one := range all {
		r.rows, r.cols, r.floats = r.rows+one.rows, one.cols, append(r.floats, one.floats...)
	}
	if all[0].m == nil {
		return r
	}
	r.m = &Matrix{Grid: all[0].m.Grid, Rows: r.rows, Cols: r.cols}
	for _, one := range all {
		r.m.codes, r.m.steps = append(r.m.codes, one.m.codes...), append(r.m.steps, one.m.steps...)
	}
	return r
}
