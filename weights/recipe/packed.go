package recipe

import (
	"fmt"

	"github.com/ridge-llm/ridge/quant"
)

// packedFile is a file that has tensors of bytes beside those of numbers: quantisers store a matrix as several of them.
type packedFile interface {
	Tensors
	// Bytes is a tensor of any dtype, its shape with the slowest dimension first.
	Bytes(name string) (shape []int, data []byte, ok bool)
}

// Packed is the recipe of a matrix, or of stacked ones, that the file has packed under a name as one of the layouts below; false when it
// has not.
func Packed(files Tensors, name string) (Recipe, bool) {
	r := MXFP4{Blocks: name + "_blocks", Scales: name + "_scales"}
	f, ok := files.(packedFile)
	if ok {
		_, _, ok = f.Bytes(r.Blocks)
	}
	return r, ok
}

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
	f, ok := files.(packedFile)
	if !ok {
		return nil, fmt.Errorf("the file has no tensor %s", r.Blocks)
	}
	shape, exponents, ok := f.Bytes(r.Scales)
	if !ok {
		return nil, fmt.Errorf("the file has no tensor %s", r.Scales)
	}
	_, codes, ok := f.Bytes(r.Blocks)
	if !ok {
		return nil, fmt.Errorf("the file has no tensor %s", r.Blocks)
	}
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
