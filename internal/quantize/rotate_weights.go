package quantize

import (
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// tensorTurn is what is done to rows of a tensor.
type tensorTurn struct {
	*weightTurn
	rows []int
}

// rotateBlock turns the weights of a block, unless an earlier run has; number len(q.blocks) is what comes behind the layers, which stays to be
// written.
func (q *job) rotateBlock(i int) error {
	if q.rotation == nil {
		return nil
	}
	var names []string
	by := map[string][]tensorTurn{}
	for _, turn := range q.rotation.turns[i] {
		places, err := placesOf(turn.weight)
		if err != nil {
			return err
		}
		for _, p := range places {
			if by[p.tensor] == nil {
				names = append(names, p.tensor)
			}
			by[p.tensor] = append(by[p.tensor], tensorTurn{turn, p.rows})
		}
	}
	for _, name := range names {
		if err := q.rotateTensor(i, name, by[name]); err != nil {
			return err
		}
	}
	for _, w := range q.rotation.norms[i] {
		if err := q.flatten(w); err != nil {
			return err
		}
	}
	return nil
}

// rotateTensor turns rows of a tensor that a block reads.
func (q *job) rotateTensor(block int, name string, turns []tensorTurn) error {
	t, ok := q.dir.Tensor(name)
	behind := block == len(q.blocks)
	if behind && q.tied() { // it has been turned as a table of embeddings
		var err error
		if t, err = q.dir.Source.Tensor(name); err != nil {
			return fmt.Errorf("quantize: %w", err)
		}
	} else if q.done[name] != nil || q.folded[name].Rows > 0 {
		return nil
	} else if !ok {
		return fmt.Errorf("quantize: the file has no tensor %s", name)
	}
	x, err := (&layerTensor{name: name, Tensor: t}).floats()
	if err != nil {
		return err
	}
	for _, turn := range turns {
		if turn.gain != nil {
			if err := q.takeGain(x, t.Cols, turn); err != nil {
				return err
			}
		}
		if turn.in != nil {
			turn.in.columns(x, t.Cols, turn.rows)
		}
		if turn.out != nil {
			turn.out.rows(x, t.Cols, turn.rows)
		}
	}
	now := quant.FromFloats(x, t.Rows, t.Cols)
	if q.rounded[name] {
		q.dir.Replace(name, now)
		return nil
	}
	if block == 0 || behind { // these are large, and stay in memory
		if now, err = now.As(q.floatFormat(name)); err != nil {
			return fmt.Errorf("quantize: tensor %s: %w", name, err)
		}
	}
	if behind && q.tied() {
		name = q.dir.Model.Untie()
	}
	q.keepFolded(name, now)
	return nil
}

// takeGain multiplies columns by a norm's weights, as the file has them.
func (q *job) takeGain(x []float32, cols int, turn tensorTurn) error {
	name, plusOne, _ := vectorOf(turn.gain)
	t, err := q.dir.Source.Tensor(name)
	if err != nil {
		return fmt.Errorf("quantize: %w", err)
	}
	gain, err := (&layerTensor{name: name, Tensor: t}).floats()
	if err != nil {
		return err
	}
	if len(gain) != cols {
		return fmt.Errorf("quantize: tensor %s has %d numbers, and rows of %d are multiplied by them", name, len(gain), cols)
	}
	if plusOne {
		for c := range gain {
			gain[c]++
		}
	}
	for _, r := range turn.rows {
		for c, v := range x[r*cols : (r+1)*cols] {
			x[r*cols+c] = v * gain[c]
		}
	}
	return nil
}

// flatten makes a norm's weights 1.
func (q *job) flatten(w *graph.Weight) error {
	name, plusOne, _ := vectorOf(w)
	if _, ok := q.folded[name]; ok { // by an earlier run, which may have folded scales into it since
		return nil
	}
	t, ok := q.dir.Tensor(name)
	if !ok {
		return fmt.Errorf("quantize: the file has no tensor %s", name)
	}
	x := make([]float32, t.Rows*t.Cols)
	for i := range x {
		if !plusOne {
			x[i] = 1
		}
	}
	q.keepFolded(name, quant.FromFloats(x, t.Rows, t.Cols))
	return nil
}

// floatFormat is the number format of floats in the place of a tensor of the file: its own, or if that has blocks F16.
func (q *job) floatFormat(name string) quant.Format {
	info, _ := q.dir.Source.Info(name)
	if f, err := quant.Parse(info.DType); err == nil && f.Block() == 1 {
		return f
	}
	return quant.F16
}

// tied reports whether the table of embeddings makes the logits too.
func (q *job) tied() bool {
	first, last := q.rotation.turns[0], q.rotation.turns[len(q.blocks)]
	return len(last) > 0 && slices.ContainsFunc(first, func(t *weightTurn) bool { return t.weight == last[0].weight })
}
