package convert

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/gguf"
)

// spanNumbers is about how many numbers one goroutine encodes at a time: enough to make handing over cheap, few enough
// that all spans under way fit into caches.
const spanNumbers = 1 << 18

// write writes the file at path, all or nothing. progress, if not nil, is called for every span: bytes of tensors written so
// far and in all.
func (f *file) write(ctx context.Context, path string, progress func(done, all int64)) error {
	var done, all int64
	for i := range f.tensors {
		all += f.tensors[i].bytes()
	}
	outputs := make([]gguf.Output, len(f.tensors))
	for i := range f.tensors {
		t := &f.tensors[i]
		outputs[i] = gguf.Output{Name: t.name, Format: t.as, Shape: t.shape, Data: func(w io.Writer) error {
			return t.write(func(span []byte) error {
				if ctx.Err() != nil {
					return fmt.Errorf("stopped with %d of %d bytes written, and the file removed: %w", done, all, ctx.Err())
				}
				_, err := w.Write(span)
				done += int64(len(span))
				if progress != nil {
					progress(done, all)
				}
				return err
			})
		}}
	}
	return weights.WriteFile(path, func(w io.Writer) error { return gguf.Write(w, f.keys, f.meta, outputs) })
}

// span is rows [from, to) of a tensor on their way.
type span struct {
	from, to int
	in, out  []byte    // buffers
	numbers  []float32 // likewise
	done     []byte    // the encoded rows
	err      error
	ready    chan struct{}
}

// write encodes the tensor's spans on all cores and emits them in order. Encoding goes on while emit waits for the disk.
func (t *tensor) write(emit func([]byte) error) error {
	rows, cols := t.size()
	step := max(1, spanNumbers/cols)
	workers := min(runtime.GOMAXPROCS(0), (rows+step-1)/step)
	free := make(chan *span, 2*workers)
	for range cap(free) {
		free <- &span{ready: make(chan struct{}, 1)}
	}
	pending, inOrder, stop := make(chan *span), make(chan *span, cap(free)), make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(stop)
	all.Go(func() {
		defer close(inOrder)
		defer close(pending)
		for from := 0; from < rows; from += step {
			select {
			case s := <-free:
				s.from, s.to = from, min(from+step, rows)
				inOrder <- s // has room for every span there is
				pending <- s
			case <-stop:
				return
			}
		}
	})
	for range workers {
		all.Go(func() {
			for s := range pending {
				s.done, s.err = t.encode(s)
				s.ready <- struct{}{}
			}
		})
	}
	for s := range inOrder {
		<-s.ready
		if s.err != nil {
			return s.err
		}
		if err := emit(s.done); err != nil {
			return err
		}
		free <- s
	}
	return nil
}

// encode is a span in the format of the file.
func (t *tensor) encode(s *span) ([]byte, error) {
	_, cols := t.size()
	n := s.to - s.from
	in := t.rows(grow(&s.in, int64(n)*t.format.RowBytes(cols)), s.from, s.to)
	if t.format == t.as && t.change == nil {
		return in, nil
	}
	numbers := grow(&s.numbers, int64(n*cols))
	size := int(t.format.RowBytes(cols))
	for r := range n { // of some formats only whole rows can be decoded
		quant.Decode(t.format, numbers[r*cols:(r+1)*cols], in[r*size:(r+1)*size])
	}
	if t.change != nil {
		if err := t.change(numbers, s.from); err != nil {
			return nil, err
		}
	}
	out := grow(&s.out, int64(n)*t.as.RowBytes(cols))
	as := int(t.as.RowBytes(cols))
	for r := range n {
		if err := quant.EncodeWeighted(t.as, out[r*as:(r+1)*as], numbers[r*cols:(r+1)*cols], t.importanceOf(s.from+r)); err != nil {
			return nil, fmt.Errorf("row %d: %w", s.from+r, err)
		}
	}
	return out, nil
}

// grow is buf with room for n.
func grow[T any](buf *[]T, n int64) []T {
	if int64(cap(*buf)) < n {
		*buf = make([]T, n)
	}
	return (*buf)[:n]
}
