package convert

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// windowed are the architectures of whose windows llama.cpp knows.
var windowed = []string{"gemma2", "gemma3", "gemma3n", "gemma4", model.GemmaEmbedding, "gpt-oss", "cohere2", "olmo2", "llama4", "modern-bert"}

// fromHF is a Hugging Face model as a file: what its graph reads, under GGUF's names. Matrices keep their format;
// vectors become F32.
func fromHF(b *modeldir.Dir) (*file, []string, error) {
	e, err := b.Model.Export()
	if err != nil {
		return nil, nil, err
	}
	f := &file{meta: e.Meta}
	numbers := int64(0)
	for _, x := range e.Tensors {
		t, err := exported(b, x)
		if err != nil {
			return nil, nil, err
		}
		f.tensors = append(f.tensors, t)
		rows, cols := x.Size()
		numbers += int64(rows) * int64(cols)
	}
	if err := addHead(f, b); err != nil {
		return nil, nil, err
	}
	if err := addPooling(f, b); err != nil {
		return nil, nil, err
	}
	f.meta["general.type"] = "model"
	f.meta["general.name"] = b.Name
	f.meta["general.size_label"] = SizeLabel(numbers)
	notes, err := addText(f.meta, b)
	if err != nil {
		return nil, nil, err
	}
	f.sortKeys()
	if w := slices.Max(b.Model.Config.Windows); w > 0 && !slices.Contains(windowed, b.Model.Arch.Name) {
		notes = append(notes, fmt.Sprintf("llama.cpp does not know that this model looks back %d tokens only: on longer texts its results are others", w))
	}
	return f, notes, nil
}

// SizeLabel is a number of weights as model names have it: "135M", "1.2B".
func SizeLabel(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1fB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.0fM", float64(n)/1e6)
	}
	return fmt.Sprintf("%.0fK", float64(n)/1e3)
}

// exported is a tensor of the model's own file, to be written as x says.
func exported(b *modeldir.Dir, x model.Exported) (tensor, error) {
	t := inGGUF(x)
	if x.Values != nil {
		t.rows = constant(x.Values)
		return t, nil
	}
	m, err := recipe.Open(x.Recipe, b)
	if err != nil {
		return t, fmt.Errorf("convert: %s: tensor %s: %w", b.Source.Path, x.Name, err)
	}
	t.rows = m.Read
	if rows, cols := t.size(); rows > 1 && m.Rows == 1 { // a vector in the form of a matrix
		t.rows = func(_ []byte, from, to int) []byte {
			all := m.Read(make([]byte, m.Format.RowBytes(m.Cols)), 0, 1)
			return all[m.Format.RowBytes(from*cols):m.Format.RowBytes(to*cols)]
		}
	}
	return t, nil
}

// inGGUF is the tensor without its numbers: a matrix in its own format, or a vector in F32.
func inGGUF(x model.Exported) tensor {
	t := tensor{name: x.Name, shape: x.Shape, format: x.Format, as: x.Format}
	switch {
	case !t.quantizable():
		t.as = quant.F32
	case x.Format.Descriptor().GGUF == nil: // of checkpoints of the hub alone
		t.as = quant.F16
	}
	return t
}

// constant reads the numbers of a vector in F32.
func constant(x []float32) func([]byte, int, int) []byte {
	data := make([]byte, 0, 4*len(x))
	for _, v := range x {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return func([]byte, int, int) []byte { return data }
}
