package convert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ridge-llm/ridge/internal/disk"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/size"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
)

// Options says how to convert.
type Options struct {
	Type     Type
	Ends     Ends
	Progress func(done, all int64) // called while writing: bytes of tensors so far and in all; may be nil

	// Importance, if not nil, says how much a squared error counts in each column of a matrix, by its name in GGUF, or of each of stacked
	// matrices, one behind the other; nil: all alike.
	Importance func(name string) []float32

	Free func(dir string) (int64, error) // bytes that fit on the disk that a folder is on; nil: disk.Free
}

// ErrFull is the error of a file that was not begun, as it would not fit.
var ErrFull = errors.New("the disk has no room")

// Result is what was written.
type Result struct {
	Tensors int
	Bytes   int64    // of tensors
	Notes   []string // for the user, in sentences
}

// Convert writes the model at in, a Hugging Face directory or a GGUF file, to the GGUF file out. The file appears under
// its name when it is complete; when ctx ends before, nothing is left.
func Convert(ctx context.Context, in, out string, o Options) (*Result, error) {
	if err := differ(in, out); err != nil {
		return nil, err
	}
	s, err := weights.Open(in)
	if err != nil {
		return nil, err
	}
	if s.Kind == weights.GGUF {
		defer s.Close()
		return ofGGUF(ctx, s, s.Names(), s.Tensor, out, o)
	}
	s.Close()
	b, err := modeldir.Open(in)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return Dir(ctx, b, out, o)
}

// Dir is Convert of a model that is open, with the tensors that were put in the place of the file's.
func Dir(ctx context.Context, b *modeldir.Dir, out string, o Options) (*Result, error) {
	if err := differ(b.Source.Path, out); err != nil {
		return nil, err
	}
	if b.Source.Kind == weights.GGUF {
		return ofGGUF(ctx, b.Source, b.Names(), func(name string) (quant.Tensor, error) {
			t, ok := b.Tensor(name)
			if !ok {
				return b.Source.Tensor(name) // which says why
			}
			return t, nil
		}, out, o)
	}
	f, notes, err := fromHF(b)
	if err != nil {
		return nil, err
	}
	return f.finish(ctx, out, append(notes, f.choose(o.Type, o.Ends, o.Importance != nil)...), o)
}

// ofGGUF writes tensors of some names in a GGUF file, in other formats.
func ofGGUF(ctx context.Context, s *weights.Source, names []string, tensor func(name string) (quant.Tensor, error), out string, o Options) (*Result, error) {
	f, notes, err := fromGGUF(s, names, tensor)
	if err != nil {
		return nil, err
	}
	return f.finish(ctx, out, append(notes, f.choose(o.Type, o.Ends, o.Importance != nil)...), o)
}

// finish writes the file, if there is room for it, and sums up.
func (f *file) finish(ctx context.Context, out string, notes []string, o Options) (*Result, error) {
	r := &Result{Tensors: len(f.tensors), Notes: notes}
	if err := f.weigh(o.Importance); err != nil {
		return nil, err
	}
	for i := range f.tensors {
		r.Bytes += f.tensors[i].bytes()
	}
	free := o.Free
	if free == nil {
		free = disk.Free
	}
	// Where free space is not known, go on; a missing folder has a better error than this.
	if room, err := free(filepath.Dir(out)); err == nil && r.Bytes > room {
		return nil, fmt.Errorf("convert: %w for %s: it takes %s and %s are free; make room, or choose another disk or a smaller type", ErrFull, out, size.Text(r.Bytes), size.Text(room))
	}
	return r, f.write(ctx, out, o.Progress)
}

// differ refuses to write over the file that is read.
func differ(in, out string) error {
	a, errA := os.Stat(in)
	b, errB := os.Stat(out)
	if errB == nil && b.IsDir() {
		return fmt.Errorf("convert: %s is a directory; give the name of the file to write", out)
	}
	if errors.Join(errA, errB) == nil && os.SameFile(a, b) {
		return fmt.Errorf("convert: %s would be written over itself; give another name for the result", in)
	}
	return nil
}
