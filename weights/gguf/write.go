package gguf

import (
	"bufio"
	"fmt"
	"io"

	"github.com/ridge-llm/ridge/quant"
)

// Output is a tensor to be written.
type Output struct {
	Name   string
	Format quant.Format
	Shape  []int                 // slowest dimension first
	Data   func(io.Writer) error // writes the tensor's bytes, exactly as many as its format and shape take
}

// Write writes a GGUF file, version 3: the metadata in the order of keys, then the tensors in theirs. Each tensor's Data
// is called once, in order, so that a file of any size passes through a small buffer. The alignment is that of
// general.alignment in metadata, 32 bytes otherwise. Values take the types that File lists.
func Write(w io.Writer, keys []string, metadata map[string]any, tensors []Output) error {
	if err := write(w, keys, metadata, tensors); err != nil {
		return fmt.Errorf("gguf: writing: %w", err)
	}
	return nil
}

func write(w io.Writer, keys []string, metadata map[string]any, tensors []Output) error {
	align, err := alignment(metadata)
	if err != nil {
		return err
	}
	infos, err := layOut(tensors, align)
	if err != nil {
		return err
	}
	header, err := appendHeader(nil, keys, metadata, infos)
	if err != nil {
		return err
	}
	out := &counter{w: bufio.NewWriterSize(w, 1<<20)}
	if _, err := out.Write(header); err != nil {
		return err
	}
	if err := out.pad(align); err != nil {
		return err
	}
	for i, in := range infos {
		before := out.n
		if err := tensors[i].Data(out); err != nil {
			return fmt.Errorf("tensor %q: %w", in.Name, err)
		}
		if got := uint64(out.n - before); got != in.size {
			return fmt.Errorf("tensor %q of shape %d in %s takes %d bytes, and %d were given", in.Name, in.Shape, in.Format, in.size, got)
		}
		if err := out.pad(align); err != nil {
			return err
		}
	}
	return out.w.Flush()
}

// maxName is the longest tensor name that ggml reads.
const maxName = 63

// layOut gives each tensor its offset, with the checks that reading makes.
func layOut(tensors []Output, align int) ([]info, error) {
	infos := make([]info, len(tensors))
	names := map[string]bool{}
	next := uint64(0)
	for i, t := range tensors {
		switch {
		case names[t.Name]:
			return nil, fmt.Errorf("the tensor name %q occurs twice", t.Name)
		case len(t.Name) > maxName:
			return nil, fmt.Errorf("the tensor name %q has %d bytes, and readers take %d at most", t.Name, len(t.Name), maxName)
		case len(t.Shape) == 0 || len(t.Shape) > maxDims:
			return nil, fmt.Errorf("tensor %q has %d dimensions; 1 to %d are possible", t.Name, len(t.Shape), maxDims)
		case !t.Format.Valid():
			return nil, fmt.Errorf("tensor %q is in no number format", t.Name)
		}
		names[t.Name] = true
		in, err := newInfo(t.Name, t.Format, fastestFirst(t.Shape))
		if err != nil {
			return nil, fmt.Errorf("tensor %q %w", t.Name, err)
		}
		in.offset = next
		next = (next + in.size + uint64(align) - 1) / uint64(align) * uint64(align)
		infos[i] = in
	}
	return infos, nil
}

func fastestFirst(shape []int) []uint64 {
	sizes := make([]uint64, len(shape))
	for d, n := range shape {
		sizes[len(shape)-1-d] = uint64(max(n, 0)) // 0 is refused like any other
	}
	return sizes
}

// counter counts what has been written.
type counter struct {
	w *bufio.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func (c *counter) pad(align int) error {
	gap := -c.n & int64(align-1)
	_, err := io.CopyN(c, zeros{}, gap)
	return err
}

// zeros is an endless reader of zero bytes.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
