package cuda

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// writing is rows on their way to the GPU.
type writing struct {
	host []byte        // pinned, grown to the largest value written
	sent *driver.Event // host may be written over
}

// Write implements backend.Writer. It returns when the copy is in the stream.
func (d *Device) Write(v *graph.Value, b backend.Buffer, rows []float32, n int) error {
	width := v.Axis.Len()
	if v.Type == graph.Q8 || n < 0 || int64(n)*v.RowBytes() > b.Len || len(rows) < n*width {
		return fmt.Errorf("cuda: %d rows of %s (%s) cannot be written from %d numbers", n, v.Name, v.Type, len(rows))
	}
	d.read.rows = 0
	return d.do(func() error {
		w, err := d.nextWriting(n * int(v.RowBytes()))
		if err != nil {
			return err
		}
		format, bytes := v.Type.Format(), w.host[:n*int(v.RowBytes())]
		var failed atomic.Pointer[error]
		parallel(n*width, 1<<15, func(from, to int) {
			if err := quant.Encode(format, bytes[format.RowBytes(from):format.RowBytes(to)], rows[from:to]); err != nil {
				failed.Store(&err)
			}
		})
		if err := failed.Load(); err != nil {
			return fmt.Errorf("cuda: writing %s: %w", v.Name, *err)
		}
		return errors.Join(d.stream.Upload(at(b), bytes), d.stream.Record(w.sent))
	})
}

// nextWriting is pinned memory of so many bytes that the stream is done with: one of two, so that a value is made ready while the one before it is copied.
func (d *Device) nextWriting(bytes int) (*writing, error) {
	d.writes[0], d.writes[1] = d.writes[1], d.writes[0]
	w := &d.writes[0]
	if w.sent == nil {
		var err error
		if w.sent, err = d.ctx.NewEvent(); err != nil {
			return nil, err
		}
	}
	if err := w.sent.Synchronize(); err != nil {
		return nil, err
	}
	if len(w.host) < bytes {
		if err := w.free(d.ctx); err != nil {
			return nil, err
		}
		var err error
		if w.host, err = d.ctx.AllocHost(bytes); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *writing) free(ctx *driver.Context) error {
	host := w.host
	w.host = nil
	if host == nil {
		return nil
	}
	return ctx.FreeHost(host)
}

// close frees what is pinned, after the stream's work.
func (w *writing) close(ctx *driver.Context) error {
	err := w.free(ctx)
	if w.sent != nil {
		err = errors.Join(err, w.sent.Close())
	}
	return err
}
