package gguf

import (
	"fmt"

	"github.com/ridge-llm/ridge/quant"
)

// formats are the number formats by ggml's type of a tensor.
var formats = func() map[uint32]quant.Format {
	all := map[uint32]quant.Format{}
	for _, f := range quant.ReadFormats() {
		all[f.Descriptor().GGUF.Tensor] = f
	}
	return all
}()

// others are ggml's tensor types that no format here reads, to be refused by name.
var others = map[uint32]string{
	4: "Q4_2", 5: "Q4_3", 9: "Q8_1", 15: "Q8_K", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8",
	36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8", 41: "Q1_0", 42: "Q2_0",
}

// formatOf maps ggml's type number to a format.
func formatOf(id uint32) (quant.Format, error) {
	if f, ok := formats[id]; ok {
		return f, nil
	}
	if name, ok := others[id]; ok {
		return quant.Invalid, fmt.Errorf("is in %s, a format Ridge does not read; get the model in Q4_K, Q8_0 or another of its formats", name)
	}
	return quant.Invalid, fmt.Errorf("is of the unknown tensor type %d", id)
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
