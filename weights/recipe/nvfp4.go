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

// NVFP4Blocks is a matrix, or stacked ones, in a GGUF file's NVFP4, with a tensor of scales beside it: one, or one for each matrix.
type NVFP4Blocks struct{ Of, Scales string }

func (r NVFP4Blocks) String() string { return fmt.Sprintf("nvfp4(%s, %s)", r.Of, r.Scales) }

type nvfp4Blocks struct {
	Shape
	blocks quant.Tensor
	scales []float32
}

func (r NVFP4Blocks) open(files Tensors) (source, error) {
	t, ok := files.Tensor(r.Of)
	if !ok || t.Format != quant.NVFP4 {
		return nil, fmt.Errorf("the file has no tensor %s in NVFP4", r.Of)
	}
	s, ok := files.Tensor(r.Scales)
	if !ok || s.Format != quant.F32 || t.Rows%(s.Rows*s.Cols) != 0 {
		return nil, fmt.Errorf("tensor %s is not one scale in F32, or one for each matrix of %s, which has %d rows", r.Scales, r.Of, t.Rows)
	}
	m := &nvfp4Blocks{Shape{quant.NVFP4_ROW, t.Rows, t.Cols}, t, make([]float32, s.Rows*s.Cols)}
	quant.Decode(quant.F32, m.scales, s.Data)
	return m, (&grid{name: r.Scales, dtype: "F32", data: s.Data}).check()
}

func (m *nvfp4Blocks) shape() Shape { return m.Shape }

func (*nvfp4Blocks) window(int, int) []byte { return nil }

// read moves each 16 numbers' scale in front of their codes, which both formats have in the same bytes.
func (m *nvfp4Blocks) read(dst []byte, from, to int) {
	for r := from; r < to; r++ {
		for row := m.blocks.Row(r); len(row) > 0; row = row[36:] {
			for i, s := range row[:4] {
				if s == 0x7f { // zero, as ggml has it
					s = 0
				}
				dst[0] = s & 0x7f
				copy(dst[1:9], row[4+8*i:])
				dst = dst[9:]
			}
		}
		putF32(dst, m.scales[r/(m.Rows/len(m.scales))])
		dst = dst[4:]
	}
}
