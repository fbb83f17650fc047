package convert

import (
	"context"
	"fmt"
	"strings"

	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/quant"
)

// Dummy writes a GGUF file out of a well-known model's shape with random weights: everything about it is as in the real
// model except what it says. The same shape and type give the same bytes. Matrices are noise of the size that keeps
// activations finite, norms are 1 and biases 0; the tokenizer has the vocabulary's size and splits English into pieces
// of a few letters.
func Dummy(ctx context.Context, shape, out string, o Options) (*Result, error) {
	m, err := model.Shape(shape)
	if err != nil {
		return nil, err
	}
	f, numbers, err := withoutData(m)
	if err != nil {
		return nil, err
	}
	f.meta["general.type"] = "model"
	// Without the hyphen: llama.cpp looks for the special tokens of Phi-3 in a file with "phi-3" in its name.
	f.meta["general.name"] = strings.ReplaceAll(strings.ToLower(shape), "-", " ") + " with random weights"
	f.meta["general.size_label"] = SizeLabel(numbers)
	if err := dummyText(f.meta, m.Config.Vocab); err != nil {
		return nil, err
	}
	f.sortKeys()
	notes := f.choose(o.Type, o.Ends, false)
	pools := pools{}
	for i := range f.tensors {
		t := &f.tensors[i]
		t.format = t.as
		if t.rows != nil {
			continue
		}
		if err := pools.fill(t); err != nil {
			return nil, fmt.Errorf("convert: %s: %w", t.name, err)
		}
	}
	return f.finish(ctx, out, notes, o)
}

// withoutData is the file that a model would be, without the numbers of its matrices, and how many there are.
func withoutData(m *model.Model) (f *file, numbers int64, err error) {
	e, err := m.Export()
	if err != nil {
		return nil, 0, err
	}
	f = &file{meta: e.Meta}
	for _, x := range e.Tensors {
		t := inGGUF(x)
		if x.Values != nil {
			t.rows = constant(x.Values)
		}
		f.tensors = append(f.tensors, t)
		rows, cols := x.Size()
		numbers += int64(rows) * int64(cols)
	}
	return f, numbers, nil
}

// Formats are the number formats that the matrices of a model would have in a file of the type, by their names in the
// graph.
func Formats(m *model.Model, t Type) (map[string]quant.Format, error) {
	f, _, err := withoutData(m)
	if err != nil {
		return nil, err
	}
	f.choose(t, Ends{}, false)
	formats := map[string]quant.Format{}
	for i := range f.tensors {
		if x := &f.tensors[i]; x.quantizable() {
			formats[x.name] = x.as
		}
	}
	return formats, nil
}
