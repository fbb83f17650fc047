package vec

import (
	"unsafe"

	"github.com/ridge-llm/ridge/quant"
)

// PanelColumns is the width of AddPanels' panels.
const PanelColumns = 16

// DotBF16 is Σ x[i]·y[i] over the length of x, with y in bfloat16.
func (o Ops) DotBF16(x []float32, y []uint16) (sum float32) {
	whole := len(x) / o.k.lanes
	if whole > 0 {
		_ = y[len(x)-1]
		sum = o.k.dotBF16(&x[0], &y[0], whole)
	}
	for i := whole * o.k.lanes; i < len(x); i++ {
		sum += x[i] * quant.BF16ToF32(y[i])
	}
	return sum
}

// AddPanels is y[i] += Σ h[r]·b[r][i] for a matrix b in bfloat16 of as many rows as h has numbers and as many columns as y, in panels of PanelColumns
// columns: [len(y)/16][len(h)][16].
func (o Ops) AddPanels(y []float32, b []uint16, h []float32) {
	n, rank := len(y)/PanelColumns, len(h)
	if n*rank == 0 {
		return
	}
	_ = b[n*rank*PanelColumns-1]
	o.k.addPanels(&y[0], &b[0], &h[0], rank, n)
}

func genericDotBF16(x *float32, y *uint16, n int) (sum float32) {
	ys := unsafe.Slice(y, 2*n)
	for i, v := range slice(x, 2*n) {
		sum += v * quant.BF16ToF32(ys[i])
	}
	return sum
}

func genericAddPanels(y *float32, b *uint16, h *float32, rank, n int) {
	ys, bs := slice(y, n*PanelColumns), unsafe.Slice(b, n*rank*PanelColumns)
	for p := range n {
		for r, f := range slice(h, rank) {
			for i := range PanelColumns {
				ys[p*PanelColumns+i] += f * quant.BF16ToF32(bs[(p*rank+r)*PanelColumns+i])
			}
		}
	}
}
