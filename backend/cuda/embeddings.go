package cuda

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// bindGiven puts the rows that a step gives as embeddings over those that were looked up, by copies from pinned memory. Of several devices with
// shards of the table one has them, and the others have 0.
func (d *Device) bindGiven(out *graph.Value, to backend.Buffer, zero bool) func(*step) error {
	y := at(to)
	width, size := out.Axis.Len(), int(out.RowBytes())
	return func(s *step) error {
		if len(s.given) != len(s.givenRows)*width {
			return fmt.Errorf("%d numbers of embeddings for %d rows of %d", len(s.given), len(s.givenRows), width)
		}
		host, err := s.buffer.embeddings(d.ctx, len(s.givenRows)*size)
		if err != nil {
			return err
		}
		for i, x := range s.given {
			if zero {
				x = 0
			}
			if out.Type == graph.BF16 {
				binary.LittleEndian.PutUint16(host[2*i:], quant.F32ToBF16(x))
			} else {
				binary.LittleEndian.PutUint32(host[4*i:], math.Float32bits(x))
			}
		}
		for from := 0; from < len(s.givenRows); { // rows that lie one behind the other at once
			to, row := from+1, s.givenRows[from]
			for to < len(s.givenRows) && int(s.givenRows[to]) == int(row)+to-from {
				to++
			}
			if err := d.stream.Upload(y+driver.Ptr(int(row)*size), host[from*size:to*size]); err != nil {
				return err
			}
			from = to
		}
		return nil
	}
}

// embeddings is pinned memory of n bytes, made when a step first needs it. The GPU is done with what an earlier step had there.
func (b *stepBuffer) embeddings(ctx *driver.Context, n int) (host []byte, err error) {
	if len(b.given) < n {
		if b.given != nil {
			if err := ctx.FreeHost(b.given); err != nil {
				return nil, err
			}
		}
		if b.given, err = ctx.AllocHost(n); err != nil {
			return nil, err
		}
	}
	return b.given[:n], nil
}
