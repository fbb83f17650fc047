package adapter

import (
	"encoding/binary"
	"math"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/ridge-llm/ridge/quant"
)

// finite says where a vector has a number that is none.
func finite(a *Adapter, name string, v []float32) error {
	for i, x := range v {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return a.fail("number %d of %s is %v; the adapter is damaged or its training failed", i, name, x)
		}
	}
	return nil
}

// finiteRows is finite for a matrix of floats, by all cores. A number whose exponent has all bits set is infinite or none.
func (a *Adapter) finiteRows(name string, t quant.Tensor) error {
	size, exponent := 2, uint32(0x7f80)
	switch t.Format {
	case quant.F32:
		size, exponent = 4, 0x7f800000
	case quant.F16:
		exponent = 0x7c00
	}
	var work errgroup.Group
	parts := min(runtime.GOMAXPROCS(0), t.Rows)
	for i := range parts {
		work.Go(func() error {
			data := t.RowSpan(t.Rows*i/parts, t.Rows*(i+1)/parts).Data
			for j := 0; j < len(data); j += size {
				bits := uint32(binary.LittleEndian.Uint16(data[j:]))
				if size == 4 {
					bits = binary.LittleEndian.Uint32(data[j:])
				}
				if bits&exponent == exponent {
					return a.fail("number %d of %s is infinite or not a number; the adapter is damaged or its training failed", t.Rows*i/parts*t.Cols+j/size, name)
				}
			}
			return nil
		})
	}
	return work.Wait()
}
