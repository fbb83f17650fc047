package cuda

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/moe"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// stack is a stacked weight, the matrices or biases of all experts of a block. On the device they are contiguous, so that kernels find an
// expert's by its number.
type stack struct {
	name     string
	matrices []quant.Tensor            // in host memory, as weight.tensor
	on       map[graph.Type]driver.Ptr // row-major copies of all on the device
	packed   driver.Ptr                // all as kernels/moe packs them, of a gate interleaved with the up matrices
	bytes    int64                     // of packed
	ups      *stack                    // the up matrices in packed; nil: none
	format   quant.Format              // of packed
	upload   *uploader
}

// Bytes implements backend.Weight. Up matrices count with their gates.
func (s *stack) Bytes() int64 {
	n, t := s.bytes, s.matrices[0]
	for as := range s.on {
		n += int64(len(s.matrices)) * int64(t.Rows) * as.RowBytes(t.Cols)
	}
	return n
}

// WhenCopied implements backend.DeferredUpload.
func (s *stack) WhenCopied(release func(part []byte)) {
	s.upload.release(func() {
		for _, t := range s.matrices {
			release(t.Data)
		}
	})
}

// eachExpert splits rows [from, to) of matrices that have so many each, one below the other, by matrix: rows a to b of matrix i begin at
// row from + at.
func eachExpert(from, to, rows int, do func(i, a, b, at int)) {
	for r := from; r < to; {
		i := r / rows
		n := min((i+1)*rows, to) - r
		do(i, r-i*rows, r-i*rows+n, r-from)
		r += n
	}
}

// packedExperts is matrices on the device as moe.Pack lays them out in a format, or gates and up matrices as moe.PackInterleaved does.
func (d *Device) packedExperts(s, ups *stack, format quant.Format) (driver.Ptr, error) {
	if s.packed != 0 {
		return s.packed, nil
	}
	like := s.matrices[0]
	like.Format = format
	if ups != nil {
		like.Rows *= 2
	}
	panels, bytes := moe.Panels(like)
	p, err := d.alloc(int64(len(s.matrices))*int64(panels)*int64(bytes), fmt.Sprintf("the %d weights of %s", len(s.matrices), s.name))
	if err != nil {
		return 0, err
	}
	s.packed, s.bytes, s.ups, s.format = p, int64(len(s.matrices))*int64(panels)*int64(bytes), ups, format
	d.upload.rows(p, len(s.matrices)*panels, bytes, func(dst []byte, from, to int) {
		eachExpert(from, to, panels, func(i, a, b, at int) {
			of := dst[at*bytes:][:(b-a)*bytes]
			if ups != nil {
				moe.PackInterleaved(of, s.matrices[i], ups.matrices[i], format, a, b)
			} else {
				moe.Pack(of, s.matrices[i], format, a, b)
			}
		})
	})
	return p, nil
}

// expertRows is matrices, or biases, on the device as floats of a type, row-major.
func (d *Device) expertRows(s *stack, as graph.Type) (driver.Ptr, error) {
	if p := s.on[as]; p != 0 {
		return p, nil
	}
	rows, size := s.matrices[0].Rows, int(as.RowBytes(s.matrices[0].Cols))
	p, err := d.alloc(int64(len(s.matrices))*int64(rows)*int64(size), fmt.Sprintf("the %d weights of %s", len(s.matrices), s.name))
	if err != nil {
		return 0, err
	}
	s.on[as] = p
	d.upload.rows(p, len(s.matrices)*rows, size, func(dst []byte, from, to int) {
		eachExpert(from, to, rows, func(i, a, b, at int) { dequantise(dst[at*size:], s.matrices[i], a, b, as) })
	})
	return p, nil
}

// SetExpert implements backend.ExpertLoader.
func (d *Device) SetExpert(weights []backend.Weight, number int, from []quant.Tensor, set func(error)) error {
	of := map[*stack]quant.Tensor{}
	for i, w := range weights {
		s, ok := w.(*stack)
		if !ok || number < 0 || number >= len(s.matrices) || from[i].Format != s.matrices[0].Format || from[i].Rows != s.matrices[0].Rows || from[i].Cols != s.matrices[0].Cols {
			return fmt.Errorf("cuda: matrix %d of weight %d of a block of experts cannot be set: it is %d × %d %s", number, i, from[i].Rows, from[i].Cols, from[i].Format)
		}
		of[s] = from[i]
	}
	return d.do(func() error {
		if err := d.stream.Synchronize(); err != nil { // the last step may not be done with what is there
			return err
		}
		for s, t := range of {
			s.set(d, number, t, of)
		}
		d.upload.after(set)
		return nil
	})
}

// set has a matrix copied to the place of one, in all layouts in which the stack is on the device; of has those of the other stacks of the block.
func (s *stack) set(d *Device, number int, t quant.Tensor, of map[*stack]quant.Tensor) {
	for as, p := range s.on {
		size := int(as.RowBytes(t.Cols))
		d.upload.rows(p+driver.Ptr(number*t.Rows*size), t.Rows, size, func(dst []byte, from, to int) { dequantise(dst, t, from, to, as) })
	}
	if s.packed == 0 {
		return
	}
	like, format := t, s.format
	like.Format = format
	if s.ups != nil {
		like.Rows *= 2
	}
	panels, bytes := moe.Panels(like)
	d.upload.rows(s.packed+driver.Ptr(number*panels*bytes), panels, bytes, func(dst []byte, from, to int) {
		if s.ups != nil {
			moe.PackInterleaved(dst, t, of[s.ups], format, from, to)
		} else {
			moe.Pack(dst, t, format, from, to)
		}
	})
}

// expertBiases is the biases of the matrices with this place, 0 when there are none.
func (d *Device) expertBiases(a backend.Args, o graph.MoE, place int) (driver.Ptr, error) {
	if !o.Biased || o.NoDownBias && place == graph.ExpertDown {
		return 0, nil
	}
	return d.expertRows(a.Weights[graph.ExpertMatrices+place].(*stack), graph.F32)
}
