package safetensors

import (
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/quant"
)

// DType names how a tensor's numbers are stored, as the header spells it: "F32", "BF16", "I64" …
type DType string

// dtypeBytes is the size of one number of each known dtype.
var dtypeBytes = map[DType]int{
	"F64": 8, "F32": 4, "F16": 2, "BF16": 2,
	"F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
	"I64": 8, "I32": 4, "I16": 2, "I8": 1,
	"U64": 8, "U32": 4, "U16": 2, "U8": 1,
	"BOOL": 1,
}

// Format is the number format of a dtype that can hold weights; false for the others, which are bytes to Ridge.
func (d DType) Format() (quant.Format, bool) {
	for _, f := range quant.Formats() {
		if f.Descriptor().DType == string(d) && d != "" {
			return f, true
		}
	}
	return quant.Invalid, false
}

// bytes is how many bytes a tensor of dtype d and the given shape takes.
func (d DType) bytes(shape []int) (int, error) {
	size, known := dtypeBytes[d]
	if !known {
		return 0, fmt.Errorf("the unknown dtype %q", string(d))
	}
	for _, n := range shape {
		if n < 0 || n != 0 && size > math.MaxInt/n {
			return 0, fmt.Errorf("the shape %d, whose product is absurd", shape)
		}
		size *= n
	}
	return size, nil
}
