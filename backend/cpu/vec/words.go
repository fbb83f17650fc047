package vec

import (
	"math"
	"unsafe"

	"github.com/ridge-llm/ridge/quant"
)

// Products of rows of four-bit codes with one input are what floats are slow at: a processor looks 32 or 64 values of bytes up at once, and converts eight or
// sixteen of them to floats. So the input is rounded to words of 15 bits and a sign, once for all rows, 64 or 128 numbers under one scale, and values are
// words as well, exactly (NVFP4_ROW) or to 14 bits (NF4, FP4). See tools/asm/vec/words.go.

// wordKernels are a tier's.
type wordKernels struct {
	groups                    int // of 32 numbers in a step
	roundCodebook, roundNVFP4 func(dst *byte, src *float32, n, groups int)
	dotCodebook               func(out *float32, x, src *byte, n, rows, stride int, table *[2][16]byte)
	dotNVFP4                  func(out *float32, x, src *byte, n, rows, stride int, scales *[2]float32)
}

// WordError is how much of the largest of its numbers an input in words may be off by, and of its block's largest a value of a codebook.
const WordError = 0.5 / 16255

// codebookPeak is the word that stands for 1: products of eight such words with those of inputs fit 32 bits.
const codebookPeak = 16383

// codebookWords are the low and the high bytes of the words that values are.
func codebookWords(values *[16]float32) (table [2][16]byte) {
	for i, v := range values {
		w := uint16(int16(math.RoundToEven(float64(v) * codebookPeak)))
		table[0][i], table[1][i] = byte(w), byte(w>>8)
	}
	return table
}

var nf4Words, fp4Words = codebookWords(quant.NF4.Descriptor().Codebook), codebookWords(quant.FP4.Descriptor().Codebook)

// Input is a row of numbers as products with rows of weights in a format take it.
type Input struct {
	format quant.Format
	x      []float32
	words  []float32 // nil: as floats
}

// Input prepares x for DotRows, in room of as many numbers where it is rounded: to WordError of the largest of 128 numbers, for formats of four bits.
func (o Ops) Input(f quant.Format, x, room []float32) Input {
	in := Input{format: f, x: x}
	if o.k.expand == nil || o.k.expand.words == nil {
		return in
	}
	k, round := o.k.expand.words, o.k.expand.words.roundCodebook
	switch f {
	case quant.NF4, quant.FP4:
	case quant.NVFP4_ROW:
		round = k.roundNVFP4
	default:
		return in
	}
	if n := len(x) / (32 * k.groups); n > 0 {
		in.words = room[:n*20*k.groups]
		round((*byte)(unsafe.Pointer(&in.words[0])), &x[0], n, k.groups)
	}
	return in
}

// dot multiplies the first numbers of rows, and says how many.
func (k *wordKernels) dot(out []float32, in *Input, weights *byte, stride int) (done int) {
	n, x := len(in.x)/(32*k.groups), (*byte)(unsafe.Pointer(&in.words[0]))
	switch in.format {
	case quant.NVFP4_ROW:
		k.dotNVFP4(&out[0], x, weights, n, len(out), stride, &e4m3Scales[0])
	case quant.NF4:
		k.dotCodebook(&out[0], x, weights, n, len(out), stride, &nf4Words)
	default:
		k.dotCodebook(&out[0], x, weights, n, len(out), stride, &fp4Words)
	}
	return n * 32 * k.groups
}
