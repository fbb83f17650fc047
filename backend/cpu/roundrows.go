package cpu

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// bindRoundRows rounds rows to 8 bits, numbers of the threshold and more to 16. A row with a number that is not finite is NaN.
func bindRoundRows(_ vec.Ops, n *graph.Node, a backend.Args) body {
	x, out, width := floats(a.In[0]), floats(a.Out[0]), n.Out[0].Axis.Len()
	threshold := float32(math.Inf(1))
	if t := n.Op.(graph.RoundRows).Threshold; t > 0 {
		threshold = float32(t)
	}
	return eachRow(n, func(r int) { roundRow(out[r*width:(r+1)*width], x[r*width:(r+1)*width], threshold) })
}

func roundRow(y, x []float32, threshold float32) {
	var largest float32
	for _, v := range x {
		if m := magnitude(v); m < threshold {
			largest = max(largest, m)
		} else if v-v != 0 {
			largest = float32(math.NaN())
		}
	}
	inverse, scale := float32(0), largest*float32(1./127)
	if largest >= graph.LeastRounded {
		inverse = 127 / largest
	}
	// Adding and subtracting 1.5 × 2^23 rounds to the nearest whole number, ties to even.
	const whole = 3 << 22
	for i, v := range x {
		if magnitude(v) >= threshold {
			y[i] = quant.F16ToF32(quant.F32ToF16(v))
			continue
		}
		y[i] = (float32(float32(v*inverse)+whole) - whole) * scale
	}
}

func magnitude(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }
