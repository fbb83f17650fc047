package convert

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// TestDummyDecays: states of random models decay. A state that grows is Inf after some hundred tokens, and there is no token to choose.
func TestDummyDecays(t *testing.T) {
	for _, shape := range [][]int{{16}, {16, 1}, {64, 16}} { // of gated delta layers, Mamba 2 and Mamba 1
		a := &tensor{name: "blk.3.ssm_a", shape: shape, as: quant.F32}
		if err := (pools{}).fill(a); err != nil {
			t.Fatal(err)
		}
		rows, cols := a.size()
		data := a.rows(make([]byte, 4*rows*cols), 0, rows)
		if len(data) != 4*rows*cols {
			t.Fatalf("%v: %d bytes of %d", shape, len(data), 4*rows*cols)
		}
		for i := 0; i < len(data); i += 4 {
			if v := math.Float32frombits(binary.LittleEndian.Uint32(data[i:])); !(v < 0) {
				t.Fatalf("%v: number %d is %v and makes a state grow", shape, i/4, v)
			}
		}
	}
}
