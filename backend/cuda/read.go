package cuda

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// reading is what Read has brought to the host since the last step: the first rows of one value.
type reading struct {
	host []byte // pinned, grown to the largest value read
	from driver.Ptr
	rows int
}

// Read implements backend.Device. Callers take the logits of a step row by row; the first of them waits for the step and brings
// all its rows in one transfer.
func (d *Device) Read(dst []float32, v *graph.Value, b backend.Buffer, from, n int) error {
	width, rowBytes := v.Axis.Len(), v.RowBytes()
	if v.Type == graph.Q8 || int64(from+n)*rowBytes > b.Len || len(dst) < n*width {
		return fmt.Errorf("cuda: rows %d to %d of %s (%s) cannot be read into %d numbers", from, from+n, v.Name, v.Type, len(dst))
	}
	r := &d.read
	if r.from != at(b) || r.rows < from+n {
		rows := from + n
		if v.Rows == graph.Logits {
			rows = max(rows, min(d.steps.logitsRows, int(b.Len/rowBytes)))
		}
		if err := d.do(func() error { return d.fetch(at(b), rows, int(rowBytes)) }); err != nil {
			return err
		}
	}
	format := v.Type.Format()
	rows := r.host[from*int(rowBytes):]
	parallel(n*width, 1<<15, func(from, to int) {
		quant.Decode(format, dst[from:to], rows[format.RowBytes(from):format.RowBytes(to)])
	})
	return nil
}

// fetch waits for the step and copies its first rows to the host.
func (d *Device) fetch(from driver.Ptr, rows, rowBytes int) (err error) {
	r, bytes := &d.read, rows*rowBytes
	r.rows = 0
	if len(r.host) < bytes {
		if r.host != nil {
			if err := d.ctx.FreeHost(r.host); err != nil {
				return err
			}
			r.host = nil
		}
		if r.host, err = d.ctx.AllocHost(bytes); err != nil {
			return err
		}
	}
	if err := d.stream.Download(r.host[:bytes], from); err != nil {
		return err
	}
	if err := d.stream.Synchronize(); err != nil {
		return err
	}
	r.from, r.rows = from, rows
	return nil
}
