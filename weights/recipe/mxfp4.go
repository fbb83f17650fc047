package recipe

import (
	"fmt"

	"github.com/ridge-llm/ridge/quant"
)

// MXFP4 is a matrix in MXFP4 as gpt-oss' files on the Hugging Face hub have it: Scales holds the exponents of blocks of 32 numbers, u8
// [rows…, cols/32], and Blocks their codes, u8 [rows…, cols/32, 16], number 2j of a block in the low half of byte j and number 2j+1 in the
// high half.
type MXFP4 struct{ Blocks, Scales string }

func (r MXFP4) String() string { return fmt.Sprintf("mxfp4(%s, %s)", r.Blocks, r.Scales) }

// mxfp4 puts exponents before codes, as quant.MXFP4 has them.
type mxfp4 struct {
	Shape
	codes, exponents []byte
}

func (r MXFP4) open(files Tensors) (source, error) {
	scales, err := raw(files, r.Scales, "U8")
	if err != nil {
		return nil, err
	}
	all, err := raw(files, r.Blocks, "U8")
	if err != nil {
		return nil, err
	}
	shape, exponents, codes := scales.Shape, scales.Data, all.Data
	if len(shape) < 2 || len(exponents) == 0 || len(codes) != 16*len(exponents) {
		return nil, fmt.Errorf("tensor %s has %d bytes and %s, of shape %d, has %d; 16 for each of a matrix are wanted", r.Blocks, len(codes), r.Scales, shape, len(exponents))
	}
	blocks := shape[len(shape)-1]
	return &mxfp4{Shape{quant.MXFP4, len(exponents) / blocks, 32 * blocks}, codes, exponents}, nil
}

func (m *mxfp4) shape() Shape { return m.Shape }

func (*mxfp4) window(int, int) []byte { return nil }

func (m *mxfp4) read(dst []byte, from, to int) {
	blocks := m.Cols / 32
	for i := from * blocks; i < to*blocks; i++ {
		dst[0] = m.exponents[i]
		codes, out := (*[16]byte)(m.codes[16*i:]), (*[16]byte)(dst[1:])
		for j := range 8 {
			// Numbers 2j and 2j+1 meet those 16 further on, which GGUF has in the same bytes.
			low, high := codes[j], codes[j+8]
			out[2*j] = low&15 | high<<4
			out[2*j+1] = low>>4 | high&0xf0
		}
		dst = dst[17:]
	}
}

// MXFP4Pairs is a matrix in MXFP4 as compressed-tensors' mxfp4-pack-quantized has it: Codes is u8 [rows, cols/2], number 2j of a row in the low
// half of byte j and number 2j+1 in the high half, Scales the exponents of blocks of 32, u8 [rows, cols/32].
type MXFP4Pairs struct{ Codes, Scales string }

func (r MXFP4Pairs) String() string { return fmt.Sprintf("mxfp4(%s, %s)", r.Codes, r.Scales) }

func (r MXFP4Pairs) open(files Tensors) (source, error) {
	codes, err := rawMatrix(files, r.Codes, "U8")
	if err != nil {
		return nil, err
	}
	scales, err := rawMatrix(files, r.Scales, "U8", "F8_E8M0")
	if err != nil {
		return nil, err
	}
	rows, cols := codes.Shape[0], 2*codes.Shape[1]
	if cols%32 != 0 || scales.Shape[0] != rows || scales.Shape[1] != cols/32 {
		return nil, fmt.Errorf("tensor %s has the shape %d, and %s of shape %d wants [%d %d]", r.Scales, scales.Shape, r.Codes, codes.Shape, rows, cols/32)
	}
	return &mxfp4{Shape{quant.MXFP4, rows, cols}, codes.Data, scales.Data}, nil
}
