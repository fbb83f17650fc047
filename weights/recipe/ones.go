package recipe

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/quant"
)

// Ones is a vector of so many ones in F32: the weight of a norm without any. No tensor of the file has it.
type Ones int

func (r Ones) String() string { return fmt.Sprintf("ones(%d)", int(r)) }

func (r Ones) open(Tensors) (source, error) { return ones(r), nil }

type ones int

func (o ones) shape() Shape { return Shape{Format: quant.F32, Rows: 1, Cols: int(o)} }

func (ones) window(int, int) []byte { return nil }

func (o ones) read(dst []byte, _, _ int) {
	for i := range int(o) {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(1))
	}
}
