package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/regular"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/recipe"
	"github.com/ridge-llm/ridge/weights/safetensors"
)

// Merged is an adapter to be merged into a model.
type Merged struct {
	Path  string
	Scale float32 // its changes are multiplied by this
}

// Merge writes a model with adapters merged into its matrices: a GGUF file, or, if out does not end with .gguf, a Hugging Face folder, which
// the model has to be too. Numbers are added in F32 and rounded once, to the format of the file to be written.
func Merge(ctx context.Context, in string, list []Merged, out string, o Options) (*Result, error) {
	b, err := modeldir.Open(in)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	c := changes{}
	for _, m := range list {
		if s := float64(m.Scale); math.IsNaN(s) || math.IsInf(s, 0) {
			return nil, fmt.Errorf("convert: the scale of adapter %s is %g; a finite number is wanted", m.Path, s)
		}
		a, all, err := fit(b, m.Path)
		if err != nil {
			return nil, err
		}
		defer a.Close()
		if len(a.Invocation) > 0 {
			return nil, fmt.Errorf("convert: adapter %s acts behind its invocation tokens alone (aLoRA); merged it would act on all", m.Path)
		}
		if err := c.add(b, all, m.Scale); err != nil {
			return nil, err
		}
	}
	if !strings.HasSuffix(out, ".gguf") {
		if o.Type.Format != quant.Invalid {
			return nil, errors.New("convert: --type is the format of a GGUF file's matrices; give the result a name that ends with .gguf")
		}
		return mergeFolder(ctx, b, c, out)
	}
	if err := differ(in, out); err != nil {
		return nil, err
	}
	f, notes, err := c.file(b)
	if err != nil {
		return nil, err
	}
	notes = append(notes, f.choose(o.Type, o.Ends, false)...)
	return f.finish(ctx, out, notes, o)
}

// file is the merged model as a GGUF file.
func (c changes) file(b *modeldir.Dir) (*file, []string, error) {
	if b.Source.Kind == weights.GGUF {
		f, notes, err := fromGGUF(b.Source, b.Source.Names(), b.Source.Tensor)
		if err != nil {
			return nil, nil, err
		}
		for i := range f.tensors {
			c.attach(&f.tensors[i], recipe.Tensor(f.tensors[i].name))
		}
		return f, notes, nil
	}
	f, notes, err := fromHF(b)
	if err != nil {
		return nil, nil, err
	}
	e, err := b.Model.Export()
	if err != nil {
		return nil, nil, err
	}
	for i, x := range e.Tensors { // the first of the file
		if x.Values == nil {
			c.attach(&f.tensors[i], x.Recipe)
		}
	}
	return f, notes, nil
}

// attach has a tensor changed as it is written.
func (c changes) attach(t *tensor, r recipe.Recipe) {
	if name, _, _ := place(r); c[name] == nil {
		return
	}
	_, cols := t.size()
	t.change = func(numbers []float32, from int) error { return c.rows(r, numbers, cols, from) }
}

// mergeFolder writes the merged model as a Hugging Face folder: one file of weights, and then the model's other files as they are.
func mergeFolder(ctx context.Context, b *modeldir.Dir, c changes, out string) (*Result, error) {
	if b.Source.Kind != weights.HuggingFace {
		return nil, fmt.Errorf("convert: model %s is GGUF and %s is to be a Hugging Face folder; give the result a name that ends with .gguf", b.Source.Path, out)
	}
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("convert: %s is there already and not empty; give another name for the result", out)
	}
	r := &Result{}
	outputs, err := c.outputs(ctx, b)
	if err != nil {
		return nil, err
	}
	for i := range outputs {
		n, err := outputs[i].Bytes()
		if err != nil {
			return nil, fmt.Errorf("convert: tensor %s has %w", outputs[i].Name, err)
		}
		r.Tensors, r.Bytes = r.Tensors+1, r.Bytes+int64(n)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	err = weights.WriteFile(filepath.Join(out, "model.safetensors"), func(w io.Writer) error { return safetensors.Write(w, map[string]string{"format": "pt"}, outputs) })
	if err != nil {
		return nil, err
	}
	return r, copyRest(b.Source.Path, out)
}

// outputs is the merged model's tensors. A changed one is computed when it is written.
func (c changes) outputs(ctx context.Context, b *modeldir.Dir) ([]safetensors.Output, error) {
	for name := range c {
		if _, ok := b.Source.Info(name); !ok {
			return nil, fmt.Errorf("convert: the model packs %s, which a merged folder cannot hold; give the result a name that ends with .gguf", name)
		}
	}
	var list []safetensors.Output
	for _, name := range b.Source.Names() {
		info, data, err := b.Source.Raw(name)
		if err != nil {
			return nil, fmt.Errorf("convert: %w", err)
		}
		list = append(list, safetensors.Output{Name: name, DType: safetensors.DType(info.DType), Shape: info.Shape, Data: func(w io.Writer) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			data := data
			if c[name] != nil {
				t, err := b.Source.Tensor(name)
				if err == nil {
					data, err = c.tensor(name, t)
				}
				if err != nil {
					return err
				}
			}
			_, err := w.Write(data)
			return err
		}})
	}
	return list, nil
}

// tensor is a changed tensor in its own format.
func (c changes) tensor(name string, t quant.Tensor) ([]byte, error) {
	numbers := t.Floats()
	if err := c.rows(recipe.Tensor(name), numbers, t.Cols, 0); err != nil {
		return nil, err
	}
	data := make([]byte, len(t.Data))
	return data, quant.Encode(t.Format, data, numbers)
}

// otherWeights are ends of names of files that have a model's weights in other forms.
var otherWeights = []string{".bin", ".pt", ".pth", ".gguf", ".onnx", ".h5", ".msgpack"}

// copyRest copies the files of a model beside its weights, config.json last: without it a folder is not loaded.
func copyRest(from, to string) error {
	if info, err := os.Stat(from); err == nil && !info.IsDir() { // a file of weights
		from = filepath.Dir(from)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	const last = "config.json"
	var names []string
	for _, e := range entries {
		name := e.Name()
		other := slices.ContainsFunc(otherWeights, func(end string) bool { return strings.HasSuffix(name, end) })
		if name != last && !other && !strings.HasPrefix(name, ".") && !strings.Contains(name, ".safetensors") && regular.Check(filepath.Join(from, name)) == nil {
			names = append(names, name)
		}
	}
	for _, name := range append(names, last) {
		data, err := regular.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o644)
		}
		if err != nil {
			return fmt.Errorf("convert: %w", err)
		}
	}
	return nil
}
