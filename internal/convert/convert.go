package convert

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/ridge-llm/ridge/internal/bundle"
	"github.com/ridge-llm/ridge/weights"
)

// Options says how to convert.
type Options struct {
	Type     Type
	Progress func(done, all int64) // called while writing: bytes of tensors so far and in all; may be nil
}

// Result is what was written.
type Result struct {
	Tensors int
	Bytes   int64    // of tensors
	Notes   []string // what is worth knowing, in sentences
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
	kind := s.Kind
	defer s.Close()
	var f *file
	var notes []string
	if kind == weights.GGUF {
		f, notes, err = fromGGUF(s)
	} else {
		var b *bundle.Bundle
		if b, err = bundle.Open(in); err != nil {
			return nil, err
		}
		defer b.Close()
		f, notes, err = fromHF(b)
	}
	if err != nil {
		return nil, err
	}
	notes = append(notes, f.choose(o.Type)...)
	return f.finish(ctx, out, notes, o.Progress)
}

// finish writes the file and sums up.
func (f *file) finish(ctx context.Context, out string, notes []string, progress func(done, all int64)) (*Result, error) {
	r := &Result{Tensors: len(f.tensors), Notes: notes}
	for i := range f.tensors {
		r.Bytes += f.tensors[i].bytes()
	}
	return r, f.write(ctx, out, progress)
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
