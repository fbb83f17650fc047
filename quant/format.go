// Package quant knows number formats: how many numbers a block holds, how its bytes are laid out, how to decode
// and encode them, and how far a round trip may be off. One file per block format. The layouts are those of GGUF
// (github.com/ggml-org/ggml, docs/gguf.md) and of the safetensors dtypes; all are little endian.
package quant

import "fmt"

// Format names one way of laying out numbers in bytes. The zero value is not a format.
type Format uint8

// The formats, in the order of the table in this file.
const (
	Invalid Format = iota
	F32
	F16
	BF16
	Q8_0
	Q4_0
	Q4_1
	Q5_0
	Q5_1
	Q2_K
	Q3_K
	Q4_K
	Q5_K
	Q6_K
	IQ4_NL
	MXFP4
	FP8
	INT8
	INT4
	formatCount
)

// layout is one row of the format table.
type layout struct {
	name       string
	block      int // numbers in a block
	blockBytes int // bytes in a block
	rowBytes   int // and behind all blocks of a row
}

var layouts = [formatCount]layout{
	F32:    {"F32", 1, 4, 0},
	F16:    {"F16", 1, 2, 0},
	BF16:   {"BF16", 1, 2, 0},
	Q8_0:   {"Q8_0", 32, 34, 0},
	Q4_0:   {"Q4_0", 32, 18, 0},
	Q4_1:   {"Q4_1", 32, 20, 0},
	Q5_0:   {"Q5_0", 32, 22, 0},
	Q5_1:   {"Q5_1", 32, 24, 0},
	Q2_K:   {"Q2_K", 256, 84, 0},
	Q3_K:   {"Q3_K", 256, 110, 0},
	Q4_K:   {"Q4_K", 256, 144, 0},
	Q5_K:   {"Q5_K", 256, 176, 0},
	Q6_K:   {"Q6_K", 256, 210, 0},
	IQ4_NL: {"IQ4_NL", 32, 18, 0},
	MXFP4:  {"MXFP4", 32, 17, 0},
	FP8:    {"FP8", 16, 16, 4},
	INT8:   {"INT8", 16, 16, 4},
	INT4:   {"INT4", int4Block, int4Bytes, 0},
}

// Formats lists the formats that files of weights have, floats first. FP8, INT8 and INT4, which are made as weights are loaded, are not
// among them.
func Formats() []Format {
	all := make([]Format, 0, FP8-1)
	for f := F32; f < FP8; f++ {
		all = append(all, f)
	}
	return all
}

// Parse turns a name such as "Q4_0" into its Format; it is exact about case.
func Parse(name string) (Format, error) {
	for f := F32; f < formatCount; f++ {
		if layouts[f].name == name {
			return f, nil
		}
	}
	return Invalid, fmt.Errorf("quant: no number format is called %q", name)
}

// Valid reports whether f is one of the formats of this package.
func (f Format) Valid() bool { return f > Invalid && f < formatCount }

// String is the format's name as GGUF tools print it.
func (f Format) String() string {
	if !f.Valid() {
		return fmt.Sprintf("Format(%d)", uint8(f))
	}
	return layouts[f].name
}

// Block is how many consecutive numbers of a row share one block; 1 for plain floats.
func (f Format) Block() int { return layouts[f].block }

// BlockBytes is the size of one block in bytes.
func (f Format) BlockBytes() int { return layouts[f].blockBytes }

// ScaledRows reports whether all numbers of a row share one scale: of FP8 and INT8.
func (f Format) ScaledRows() bool { return f == FP8 || f == INT8 }

// RowBytes is the size in bytes of a row of n numbers; n must be a multiple of Block.
func (f Format) RowBytes(n int) int64 {
	l := layouts[f]
	return int64(n/l.block)*int64(l.blockBytes) + int64(l.rowBytes)
}
