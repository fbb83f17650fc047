package recipe

import (
	"fmt"

	"github.com/ridge-llm/ridge/quant"
)

// NVFP4 is a matrix of four-bit floats: Codes u8 [rows, cols/2], number 2j of a row in the low half of byte j, Scales e4m3 [rows, cols/16], and
// Global, f32, which multiplies all of them (ModelOpt) or divides them (compressed-tensors).
type NVFP4 struct {
	Codes, Scales, Global string
	Divides               bool
}

func (r NVFP4) String() string { return fmt.Sprintf("nvfp4(%s, %s)", r.Codes, r.Scales) }

type nvfp4 struct {
	Shape
	codes, scales []byte
	global        float32
}

func (r NVFP4) open(files Tensors) (source, error) {
	codes, err := rawMatrix(files, r.Codes, "U8")
	if err != nil {
		return nil, err
	}
	scales, err := rawMatrix(files, r.Scales, "F8_E4M3")
	if err != nil {
		return nil, err
	}
	all, err := raw(files, r.Global, "F32")
	if err != nil {
		return nil, err
	}
	rows, cols := codes.Shape[0], 2*codes.Shape[1]
	if cols%16 != 0 || scales.Shape[0] != rows || scales.Shape[1] != cols/16 {
		return nil, fmt.Errorf("tensor %s has the shape %d, and %s of shape %d wants [%d %d]", r.Scales, scales.Shape, r.Codes, codes.Shape, rows, cols/16)
	}
	for i, s := range scales.Data {
		if s&0x7f == 0x7f {
			return nil, fmt.Errorf("scale %d of tensor %s is NaN; the file is damaged, get it again", i, r.Scales)
		}
	}
	global := grid{name: r.Global, dtype: all.DType, data: all.Data}
	if global.count() != 1 {
		return nil, fmt.Errorf("tensor %s has the shape %d, and one number is wanted", r.Global, all.Shape)
	}
	if err := global.check(); err != nil {
		return nil, err
	}
	m := &nvfp4{Shape{quant.NVFP4_ROW, rows, cols}, codes.Data, scales.Data, global.number(0)}
	if r.Divides {
		m.global = 1 / m.global
	}
	return m, nil
}

func (m *nvfp4) shape() Shape { return m.Shape }

func (*nvfp4) window(int, int) []byte { return nil }

func (m *nvfp4) read(dst []byte, from, to int) {
	blocks := m.Cols / 16
	for r := from; r < to; r++ {
		for i := r * blocks; i < (r+1)*blocks; i++ {
			dst[0] = m.scales[i]
			codes, out := (*[8]byte)(m.codes[8*i:]), (*[8]byte)(dst[1:])
			for j := range 4 { // numbers 2j and 2j+1 meet those 8 further on
				low, high := codes[j], codes[j+4]
				out[2*j] = low&15 | high<<4
				out[2*j+1] = low>>4 | high&0xf0
			}
			dst = dst[9:]
		}
		putF32(dst, m.global)
		dst = dst[4:]
	}
}
