package ref

import (
	"encoding/binary"
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// q8Scale is where the scale is in a block of Q8, in bytes: behind the numbers.
const q8Scale = graph.Q8Block

// quantize rounds rows to Q8, F8 or I8.
func quantize(d *Device, n *graph.Node, a backend.Args) {
	if n.Op.(graph.Quantize).To != graph.Q8 {
		quantizeRows(d, n, a)
		return
	}
	for r := range d.rows(n) {
		d.storeQ8(rowAt(n.Out[0], a.Out[0], r), d.read(n, a, 0, r))
		d.counted.ValueWrite += n.Out[0].RowBytes()
	}
}

// storeQ8 rounds a row to Q8.
func (d *Device) storeQ8(row []byte, x []float32) {
	for ; len(x) > 0; x, row = x[graph.Q8Block:], row[graph.Q8BlockBytes:] {
		var largest float32
		for _, v := range x[:graph.Q8Block] {
			largest = max(largest, float32(math.Abs(float64(v))))
		}
		d.flops(2 * graph.Q8Block) // magnitude, maximum
		inverse := float32(0)
		if largest != 0 {
			inverse = 127 / largest
		}
		for i, v := range x[:graph.Q8Block] {
			row[i] = byte(int8(math.RoundToEven(float64(v * inverse))))
		}
		d.flops(2*graph.Q8Block + 2) // scaling, rounding; two divisions
		binary.LittleEndian.PutUint32(row[q8Scale:], math.Float32bits(largest*float32(1./127)))
	}
}

// quantizeRows rounds each row as rows of weights are rounded, large numbers left out. A row with a number that is not finite gets NaN as its scale.
func quantizeRows(d *Device, n *graph.Node, a backend.Args) {
	below := n.Op.(graph.Quantize).Below
	for r := range d.rows(n) {
		x, row := d.read(n, a, 0, r), rowAt(n.Out[0], a.Out[0], r)
		if below > 0 {
			for i, v := range x {
				if math.Abs(float64(v)) >= below && v-v == 0 {
					x[i] = 0
				}
			}
			d.flops(len(x))
		}
		if err := quant.Encode(n.Out[0].Type.Format(), row, x); err != nil {
			binary.LittleEndian.PutUint32(row[len(x):], math.Float32bits(float32(math.NaN())))
		}
		d.flops(4*len(x) + 2) // magnitude, maximum, scaling, rounding; two divisions
		d.counted.ValueWrite += n.Out[0].RowBytes()
	}
}

// loadQ8 dequantises a row of Q8.
func loadQ8(dst []float32, row []byte) {
	for i := range dst {
		block := row[i/graph.Q8Block*graph.Q8BlockBytes:]
		scale := math.Float32frombits(binary.LittleEndian.Uint32(block[q8Scale:]))
		dst[i] = float32(int8(block[i%graph.Q8Block])) * scale
	}
}
