package ref

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// roundRows rounds rows to 8 bits, large numbers apart. A row with a number that is not finite is NaN.
func roundRows(d *Device, n *graph.Node, a backend.Args) {
	threshold := math.Inf(1)
	if t := n.Op.(graph.RoundRows).Threshold; t > 0 {
		threshold = t
	}
	for r := range d.rows(n) {
		x := d.read(n, a, 0, r)
		var largest float32
		for _, v := range x {
			if m := math.Abs(float64(v)); m < threshold {
				largest = max(largest, float32(m))
			} else if v-v != 0 {
				largest = float32(math.NaN())
			}
		}
		inverse, scale := float32(0), largest*float32(1./127)
		if largest >= graph.LeastRounded {
			inverse = 127 / largest
		}
		for i, v := range x {
			switch {
			case math.Abs(float64(v)) >= threshold:
				x[i] = quant.F16ToF32(quant.F32ToF16(v))
			default:
				x[i] = float32(math.RoundToEven(float64(v*inverse))) * scale
			}
		}
		d.flops(6*len(x) + 2)
		d.write(n, a, 0, r, x)
	}
}
