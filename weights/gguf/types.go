package gguf

import (
	"fmt"

	"github.com/ridge-llm/ridge/quant"
)

// tensorTypes are ggml's tensor types by number. Those without a format are known by name only, to be refused by it.
var tensorTypes = map[uint32]struct {
	name   string
	format quant.Format
}{
	0:  {"F32", quant.F32},
	1:  {"F16", quant.F16},
	2:  {"Q4_0", quant.Q4_0},
	3:  {"Q4_1", quant.Q4_1},
	4:  {"Q4_2", quant.Invalid},
	5:  {"Q4_3", quant.Invalid},
	6:  {"Q5_0", quant.Q5_0},
	7:  {"Q5_1", quant.Q5_1},
	8:  {"Q8_0", quant.Q8_0},
	9:  {"Q8_1", quant.Invalid},
	10: {"Q2_K", quant.Q2_K},
	11: {"Q3_K", quant.Q3_K},
	12: {"Q4_K", quant.Q4_K},
	13: {"Q5_K", quant.Q5_K},
	14: {"Q6_K", quant.Q6_K},
	15: {"Q8_K", quant.Invalid},
	16: {"IQ2_XXS", quant.Invalid},
	17: {"IQ2_XS", quant.Invalid},
	18: {"IQ3_XXS", quant.Invalid},
	19: {"IQ1_S", quant.Invalid},
	20: {"IQ4_NL", quant.IQ4_NL},
	21: {"IQ3_S", quant.Invalid},
	22: {"IQ2_S", quant.Invalid},
	23: {"IQ4_XS", quant.Invalid},
	24: {"I8", quant.Invalid},
	25: {"I16", quant.Invalid},
	26: {"I32", quant.Invalid},
	27: {"I64", quant.Invalid},
	28: {"F64", quant.Invalid},
	29: {"IQ1_M", quant.Invalid},
	30: {"BF16", quant.BF16},
	31: {"Q4_0_4_4", quant.Invalid},
	32: {"Q4_0_4_8", quant.Invalid},
	33: {"Q4_0_8_8", quant.Invalid},
	34: {"TQ1_0", quant.Invalid},
	35: {"TQ2_0", quant.Invalid},
	36: {"IQ4_NL_4_4", quant.Invalid},
	37: {"IQ4_NL_4_8", quant.Invalid},
	38: {"IQ4_NL_8_8", quant.Invalid},
	39: {"MXFP4", quant.MXFP4},
	40: {"NVFP4", quant.Invalid},
	41: {"Q1_0", quant.Invalid},
	42: {"Q2_0", quant.Invalid},
}

// formatOf maps ggml's type number to a format.
func formatOf(id uint32) (quant.Format, error) {
	t, known := tensorTypes[id]
	switch {
	case !known:
		return quant.Invalid, fmt.Errorf("is of the unknown tensor type %d", id)
	case t.format == quant.Invalid:
		return quant.Invalid, fmt.Errorf("is in %s, a format Ridge does not read; get the model in Q4_K, Q8_0 or another of its formats", t.name)
	}
	return t.format, nil
}

// The types of metadata values.
const (
	kindUint8 uint32 = iota
	kindInt8
	kindUint16
	kindInt16
	kindUint32
	kindInt32
	kindFloat32
	kindBool
	kindString
	kindArray
	kindUint64
	kindInt64
	kindFloat64
)

// kindSize is the least number of bytes a value of each kind takes: its size, or for strings and arrays their headers.
var kindSize = [...]int{
	kindUint8: 1, kindInt8: 1, kindUint16: 2, kindInt16: 2, kindUint32: 4, kindInt32: 4, kindFloat32: 4, kindBool: 1,
	kindString: 8, kindArray: 12, kindUint64: 8, kindInt64: 8, kindFloat64: 8,
}

// typeOf is ggml's number for a format.
func typeOf(f quant.Format) uint32 {
	for id, t := range tensorTypes {
		if t.format == f {
			return id
		}
	}
	panic(fmt.Sprintf("gguf: the format %s has no tensor type", f)) // a format without a row above is our bug
}
