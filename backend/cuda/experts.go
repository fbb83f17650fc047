package cuda

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/moe"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// The same matrix of all experts of a block lies in one piece, one expert behind the other, so that kernels find an expert's by its
// number.

// expertSlabs is matrices on the device as moe.Pack lays them out in a form, or gates and up matrices as moe.PackWoven does.
func (d *Device) expertSlabs(list, ups stack, form quant.Format) (driver.Ptr, error) {
	first := list[0]
	if first.packed != 0 {
		return first.packed, nil
	}
	like := first.tensor
	like.Format = form
	if ups != nil {
		like.Rows *= 2
	}
	slabs, bytes := moe.Slabs(like)
	p, err := d.alloc(int64(len(list))*int64(slabs)*int64(bytes), fmt.Sprintf("the %d weights of %s", len(list), first.name))
	if err != nil {
		return 0, err
	}
	for i, w := range list {
		w.packed, w.expertBytes = p+driver.Ptr(i*slabs*bytes), int64(slabs)*int64(bytes)
		if ups != nil { // each of the two has half
			w.expertBytes /= 2
			ups[i].packed, ups[i].expertBytes = w.packed, w.expertBytes
		}
	}
	d.upload.rows(p, len(list)*slabs, bytes, func(dst []byte, from, to int) {
		for s := from; s < to; {
			i, n := s/slabs, min(slabs-s%slabs, to-s)
			of := dst[(s-from)*bytes:][:n*bytes]
			if ups != nil {
				moe.PackWoven(of, list[i].tensor, ups[i].tensor, form, s%slabs, s%slabs+n)
			} else {
				moe.Pack(of, list[i].tensor, form, s%slabs, s%slabs+n)
			}
			s += n
		}
	})
	return p, nil
}

// expertRows is matrices, or biases, on the device as floats of a type, row-major.
func (d *Device) expertRows(list stack, as graph.Type) (driver.Ptr, error) {
	first := list[0]
	if p := first.on[as]; p != 0 {
		return p, nil
	}
	rows, size := first.tensor.Rows, int(as.RowBytes(first.tensor.Cols))
	p, err := d.alloc(int64(len(list))*int64(rows)*int64(size), fmt.Sprintf("the %d weights of %s", len(list), first.name))
	if err != nil {
		return 0, err
	}
	for i, w := range list {
		w.on[as] = p + driver.Ptr(i*rows*size)
	}
	d.upload.rows(p, len(list)*rows, size, func(dst []byte, from, to int) {
		row := make([]float32, first.tensor.Cols)
		for r := from; r < to; r++ {
			t := list[r/rows].tensor
			quant.Decode(t.Format, row, t.Row(r%rows))
			encode(dst[(r-from)*size:], row, as)
		}
	})
	return p, nil
}

// expertBiases is the biases of the matrices with this place, 0 when there are none.
func (d *Device) expertBiases(a backend.Args, o graph.MoE, place int) (driver.Ptr, error) {
	if !o.Biased {
		return 0, nil
	}
	return d.expertRows(a.Weights[graph.ExpertMatrices+place].(stack), graph.F32)
}
