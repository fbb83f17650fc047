// Package modeldir opens a model with its files: weights, architecture, tokenizer, chat template and the
// settings its authors recommend. Files become the types of Ridge here.
package modeldir

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// Dir is an opened model. Its weights are mapped, not read.
type Dir struct {
	Name   string // for display: the file's or folder's name
	Source *weights.Source
	Model  *model.Model
	// NoModel is why Model is nil, in what OpenAny has opened.
	NoModel error

	replaced map[string]quant.Tensor
}

// Open opens a GGUF file, a .safetensors file beside its config.json, or a Hugging Face directory.
func Open(path string) (*Dir, error) {
	s, err := openWeights(path)
	if err != nil {
		return nil, err
	}
	return fromSource(nameOf(path), s)
}

// OpenAny is Open for looking at what is in the files. They may hold no model that Ridge runs: a vocabulary alone, or one of another architecture.
func OpenAny(path string) (*Dir, error) {
	s, err := openWeights(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{Name: nameOf(path), Source: s}
	if d.NoModel = d.readModel(); d.NoModel != nil {
		d.Model = nil
	}
	return d, nil
}

// nameOf is the display name of the model at a path: its file's or folder's name, or, of a folder in the cache of Hugging Face's tools
// (models--ORG--REPO/snapshots/COMMIT), the repository's.
func nameOf(path string) string {
	path = filepath.Clean(path)
	if snapshots := filepath.Dir(path); filepath.Base(snapshots) == "snapshots" {
		if repo, ok := strings.CutPrefix(filepath.Base(filepath.Dir(snapshots)), "models--"); ok {
			return strings.Replace(repo, "--", "/", 1)
		}
	}
	return strings.TrimSuffix(filepath.Base(path), ".gguf")
}

// fromSource finds out which architecture a source holds; it owns the source from then on.
func fromSource(name string, s *weights.Source) (*Dir, error) {
	d := &Dir{Name: name, Source: s}
	if err := d.readModel(); err != nil {
		s.Close()
		return nil, err
	}
	return d, nil
}

// readModel finds out which architecture the source holds.
func (d *Dir) readModel() (err error) {
	switch s := d.Source; {
	case s.Kind == weights.GGUF:
		d.Model, err = model.FromGGUF(s.Path, s.Metadata, d)
	case s.Config == nil:
		err = fmt.Errorf("modeldir: %s has no config.json beside it, which says what architecture it is", s.Path)
	default:
		d.Model, err = model.FromHF(filepath.Join(s.Path, "config.json"), s.Config, d)
	}
	return err
}

// Replace puts another tensor of the same shape, in any format, in the place of one of the file's, or beside them; the zero Tensor takes it away
// again. What was opened before goes on with the old one.
func (d *Dir) Replace(name string, t quant.Tensor) {
	if d.replaced == nil {
		d.replaced = map[string]quant.Tensor{}
	}
	if t.Format == quant.Invalid {
		delete(d.replaced, name)
		return
	}
	d.replaced[name] = t
}

// Names lists the file's tensors in its order, and behind them those that were put beside them.
func (d *Dir) Names() []string {
	names := slices.Clone(d.Source.Names())
	of := len(names)
	for name := range d.replaced {
		if _, ok := d.Source.Info(name); !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names[of:])
	return names
}

// Tensor implements model.Tensors and compile.Tensors.
func (d *Dir) Tensor(name string) (quant.Tensor, bool) {
	if t, ok := d.replaced[name]; ok {
		return t, true
	}
	if _, ok := d.Source.Info(name); !ok {
		return quant.Tensor{}, false
	}
	t, err := d.Source.Tensor(name)
	return t, err == nil
}

// Bytes is a tensor of any dtype.
func (d *Dir) Bytes(name string) (recipe.Raw, bool) {
	info, data, err := d.Source.Raw(name)
	return recipe.Raw{DType: info.DType, Shape: info.Shape, Data: data}, err == nil
}

// Release implements compile.Tensors: the device has its own copy.
func (d *Dir) Release(part []byte) { d.Source.Release(part) }

// Close unmaps the files.
func (d *Dir) Close() error { return d.Source.Close() }
