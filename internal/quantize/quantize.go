package quantize

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/quantize/dense"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
)

// job is a model being quantised.
type job struct {
	o          Options
	dir        *modeldir.Dir
	g          *graph.Graph
	blocks     []block
	runner     *runner
	engine     *dense.Engine
	done       map[string]*Matrix      // by the names of the file's tensors
	folded     map[string]quant.Tensor // likewise, floats that scales were folded into
	keptLayers int
	keptFloats map[string]bool // of them, those that are in the state
	layers     []LayerError
	notes      []string           // for the user
	nearest    map[string]float64 // by tensors: the error of rounding to nearest, where scales change it
	rounded    map[string]bool    // tensors that are or will be on a grid
	rotation   *rotation          // nil: none
	narrow     bool               // matrices are in BF16, and inputs are rounded to it

	state   *state // nil: nothing is kept
	resumed int    // blocks
}

// LayerError is what rounding a tensor has cost.
type LayerError struct {
	Tensor string  `json:"tensor"`
	Before float64 `json:"rtn"`   // the squared error of its results over the calibration text when it is rounded to nearest, by the results' square
	After  float64 `json:"error"` // likewise by the method
}

// newJob checks what is to be done. seqs is the calibration text.
func newJob(dir *modeldir.Dir, dev backend.Device, seqs [][]int32, o Options) (*job, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if dir.Model.Config.Encoder {
		return nil, fmt.Errorf("quantize: %s is an encoder; decoders can be quantised", dir.Name)
	}
	if len(seqs) == 0 {
		return nil, errors.New("quantize: there is no calibration text")
	}
	q := &job{o: o, dir: dir, done: map[string]*Matrix{}, folded: map[string]quant.Tensor{}, keptFloats: map[string]bool{}, nearest: map[string]float64{}}
	var err error
	if q.g, err = dir.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32}); err != nil {
		return nil, err
	}
	if q.blocks, err = blocksOf(q.g, o.Head); err != nil {
		return nil, err
	}
	q.narrow = q.isNarrow()
	if q.engine, err = dense.New(); err != nil {
		return nil, err
	}
	q.runner = &runner{dev: dev, files: dir, seqs: seqs, values: map[*graph.Value]rows{}}
	return q, nil
}

// formatNow is the number format that a weight is in now: that of the tensor that has taken the place of the file's.
func (q *job) formatNow(w *graph.Weight) quant.Format {
	if w.Recipe == nil {
		return w.Format
	}
	p, err := placeOf(w)
	if err != nil {
		return w.Format
	}
	t, ok := q.dir.Tensor(p.tensor)
	if !ok {
		return w.Format
	}
	return t.Format
}

// precision is how exactly sums of inputs' outer products are needed. For matrices of four bits 8 bits do: what rounding adds to a column's own sum is a
// 50,000th of it, where the damping of GPTQ adds a hundredth, and to the others nothing on average.
func (q *job) precision() dense.Precision {
	switch {
	case q.o.usesGrid() && q.o.Grid.Bits <= 4 && !q.o.Prunes():
		return dense.Int8
	case q.narrow: // inputs are rounded to bf16 where they are multiplied with the matrix
		return dense.BFloat16
	}
	return dense.Float32
}

// part is partOf with matrices as they are now. Inputs of those that are in blocks already are rounded to 8 bits where the device multiplies these in
// integers, as when the model is used.
func (q *job) part(known, want []*graph.Value) (*graph.Graph, error) {
	g, err := partOf(q.g, known, want, q.formatNow)
	if err != nil {
		return nil, err
	}
	return pass.ActQuant(g, pass.Options{Q8: q.runner.dev.Info().Q8})
}

// collect runs a block up to the inputs in want, and gathers what they are.
func (q *job) collect(ctx context.Context, b *block, want []*input) (map[*input]*stats, error) {
	var values []*graph.Value
	by := map[int]*stats{}
	all := map[*input]*stats{}
	for _, in := range want {
		s := newStats(in.value.Axis.Len(), q.precision())
		by[in.value.ID], all[in] = s, s
		values = append(values, in.value)
	}
	g, err := q.part(b.in, values)
	if err != nil {
		return nil, err
	}
	tokens, _ := q.runner.tokens()
	every := max(1, tokens/sampleRows)
	err = q.runner.run(ctx, g, func(id, row int, x []float32) error {
		for i, v := range x {
			if d := float64(v); math.IsNaN(d) || math.IsInf(d, 0) {
				return fmt.Errorf("quantize: layer %d: number %d of the inputs is %g; the model's weights do not fit its configuration", b.layer, i, v)
			}
		}
		by[id].add(q.engine, x, every)
		return nil
	})
	return all, err
}

// advance runs a block and keeps what crosses its border in the place of what it has read.
func (q *job) advance(ctx context.Context, b *block) error {
	g, err := q.part(b.in, b.out)
	if err != nil {
		return err
	}
	tokens, _ := q.runner.tokens()
	next := map[*graph.Value]rows{}
	by := map[int]rows{}
	free := b.in // values whose memory others may take: a step reads its rows of them before it makes any
	for _, v := range b.out {
		width := v.Axis.Len()
		switch at := slices.IndexFunc(free, func(u *graph.Value) bool { return u.Axis.Len() == width && !slices.Contains(b.out, u) }); {
		case slices.Contains(b.in, v):
			next[v] = q.runner.values[v]
			continue
		case at >= 0:
			next[v] = q.runner.values[free[at]]
			free = slices.Delete(slices.Clone(free), at, at+1)
		default:
			next[v] = rows{width, make([]float32, tokens*width)}
		}
		by[v.ID] = next[v]
	}
	err = q.runner.run(ctx, g, func(id, row int, x []float32) error {
		to := by[id]
		copy(to.data[row*to.width:], x)
		return nil
	})
	q.runner.values = next
	return err
}

// run quantises all blocks.
func (q *job) run(ctx context.Context) error {
	for i := range q.blocks {
		b := &q.blocks[i]
		made, err := q.resume(i)
		if err != nil {
			return err
		}
		if err := q.rotateBlock(i); err != nil {
			return err
		}
		if !made {
			if err := q.block(ctx, b); err != nil {
				return err
			}
		}
		if i+1 < len(q.blocks) {
			if err := q.advance(ctx, b); err != nil {
				return err
			}
		}
		if err := q.keep(i, made); err != nil {
			return err
		}
	}
	return q.rotateBlock(len(q.blocks))
}

// block quantises the linear layers of a block, in the order of the graph: inputs of later ones are what the quantised earlier ones make.
func (q *job) block(ctx context.Context, b *block) error {
	if q.o.Method == AWQ || q.o.Method == SmoothQuant {
		if err := q.scaleInputs(ctx, b); err != nil {
			return err
		}
	}
	for i := range b.inputs {
		in := &b.inputs[i]
		gathered, err := q.collect(ctx, b, []*input{in})
		if err != nil {
			return err
		}
		tensors, err := q.tensorsOf(in)
		if err != nil {
			return err
		}
		for _, t := range tensors {
			if err := q.tensor(b, t, gathered[in]); err != nil {
				return err
			}
		}
	}
	for i := range b.mixtures {
		if err := q.mixture(ctx, b, &b.mixtures[i]); err != nil {
			return err
		}
	}
	return nil
}

// resume takes over what an earlier run has made of a block, for its layers to be run; false: there is nothing.
func (q *job) resume(i int) (bool, error) {
	if q.state == nil {
		return false, nil
	}
	k, matrices, floats, ok, err := q.state.load(i, q.o.Grid)
	if !ok || err != nil {
		return false, err
	}
	q.resumed++
	q.layers = append(q.layers, k.Layers...)
	for name, m := range matrices {
		q.done[name] = m
		q.replace(name, m.running())
	}
	for name, t := range floats {
		q.folded[name] = t
		q.dir.Replace(name, t)
	}
	if q.o.Progress != nil && q.blocks[i].layer >= 0 {
		q.o.Progress(Progress{Layer: q.blocks[i].layer, Layers: len(q.blocks) - 1, What: "resumed"})
	}
	return true, nil
}

// keep writes what a block has made, unless it has been taken over, and drops its floats. Codes are windows into the file from then on.
func (q *job) keep(i int, made bool) error {
	var k kept
	for _, m := range q.blocks[i].mixtures {
		for _, name := range m.tensors() {
			if _, ok := q.done[name]; ok {
				k.Matrices = append(k.Matrices, name)
			}
		}
	}
	for _, in := range q.blocks[i].inputs {
		tensors, err := q.tensorsOf(&in)
		if err != nil {
			return err
		}
		for _, t := range tensors {
			if _, ok := q.done[t.name]; ok {
				k.Matrices = append(k.Matrices, t.name)
			}
		}
	}
	if q.state != nil && !made && len(q.layers) > q.keptLayers {
		k.Layers = q.layers[q.keptLayers:]
		for name := range q.folded {
			if !q.keptFloats[name] {
				k.Floats = append(k.Floats, name)
			}
		}
		slices.Sort(k.Floats)
		if err := q.state.save(i, k, q.done, q.folded); err != nil {
			return err
		}
		_, matrices, floats, _, err := q.state.load(i, q.o.Grid)
		if err != nil {
			return err
		}
		maps.Copy(q.done, matrices)
		maps.Copy(q.folded, floats)
	}
	q.keptLayers = len(q.layers)
	for name := range q.folded {
		q.keptFloats[name] = true
		q.dir.Replace(name, quant.Tensor{})
	}
	for _, name := range k.Matrices {
		q.dir.Replace(name, quant.Tensor{})
	}
	return nil
}

// made is a matrix that a method has made.
type made struct {
	m          *Matrix   // nil: it is floats
	floats     []float32 // [rows, cols], of m if that is not nil
	rows, cols int
}

// tensor is its numbers.
func (r *made) tensor() quant.Tensor { return quant.FromFloats(r.floats, r.rows, r.cols) }

// tensor quantises a tensor.
func (q *job) tensor(b *block, t *layerTensor, s *stats) error {
	w, err := t.floats()
	if err != nil {
		return err
	}
	r, err := q.round(b, t, w, s)
	if err == nil {
		q.put(t.name, r)
	}
	return err
}

// put puts a matrix in the place of the file's.
func (q *job) put(name string, r made) {
	if r.m == nil {
		q.keepFolded(name, r.tensor())
		return
	}
	q.done[name] = r.m
	q.replace(name, r.m.running())
}

// replace puts a rounded matrix in the place of the file's, for what the model computes; one in floats in BF16 if that is what the model's are in.
func (q *job) replace(name string, t quant.Tensor) {
	if q.narrow && t.Format == quant.F32 {
		if narrow, err := t.As(quant.BF16); err == nil { // it errs beyond its range
			t = narrow
		}
	}
	q.dir.Replace(name, t)
}

// isNarrow reports whether all matrices of layers are in BF16.
func (q *job) isNarrow() bool {
	for _, b := range q.blocks {
		for _, in := range b.inputs {
			for _, n := range in.nodes {
				if n.Weights[0].Format != quant.BF16 {
					return false
				}
			}
		}
	}
	return true
}

// round makes a matrix of a tensor's numbers w by the method.
func (q *job) round(b *block, t *layerTensor, w []float32, s *stats) (made, error) {
	if q.o.Prunes() {
		return q.prune(b, t, w, s)
	}
	plain := nearest(q.o.Grid, w, t.Rows, t.Cols, false, nil)
	m := plain
	var err error
	switch q.o.Method {
	case MethodGPTQ:
		m, err = q.o.GPTQ.quantise(q.engine, q.o.Grid, w, t.Rows, t.Cols, s)
	case AutoRound:
		m, err = q.o.autoRound(q.engine, w, t.Rows, t.Cols, s)
	case AWQ:
		m = clipped(q.engine, q.o.Grid, w, t.Rows, t.Cols, s)
	}
	if err != nil {
		return made{}, fmt.Errorf("quantize: tensor %s: %w", t.name, err)
	}
	errs := q.errorsOf(w, s, plain.numbers(), m.numbers())
	e := LayerError{Tensor: t.name, Before: errs[0], After: errs[1]}
	if before, ok := q.nearest[t.name]; ok {
		e.Before = before
	}
	q.report(b, e)
	return made{m, m.numbers(), t.Rows, t.Cols}, nil
}

// report notes what a tensor's error is.
func (q *job) report(b *block, e LayerError) {
	q.layers = append(q.layers, e)
	if q.o.Progress != nil {
		q.o.Progress(Progress{Layer: b.layer, Layers: len(q.blocks) - 1, What: e.Tensor, Before: e.Before, After: e.After})
	}
}

// errorOf is the squared error of the results of w when m stands for it.
func (q *job) errorOf(m *Matrix, w []float32, s *stats) float64 {
	return q.errorsOf(w, s, m.numbers())[0]
}

// errorsOf is the squared errors of the results of w when numbers, which are overwritten, stand for it, by the square of those results. Where these are
// all zero, and no error of w is seen, they are 0.
func (q *job) errorsOf(w []float32, s *stats, all ...[]float32) []float64 {
	errs, size := make([]float64, len(all)), s.loss(q.engine, w)
	for k, x := range all {
		if size == 0 {
			break
		}
		for i, v := range w {
			x[i] -= v
		}
		errs[k] = s.loss(q.engine, x) / size
	}
	return errs
}
