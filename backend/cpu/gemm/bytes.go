package gemm

import (
	"unsafe"

	"github.com/ridge-llm/ridge/quant"
)

// Weights that are decoded as they are used, whose codes stand for floats, are multiplied with many inputs as bytes: a panel of NR rows at a time is rounded
// to signed bytes with a float scale for each 32 numbers, as inputs are in Q8. That loses as much again as the inputs' rounding does, 1/254 of the largest of 32.

// bytesPacking is how such a panel is packed.
var bytesPacking = packing{layout: layoutU8, scale: scaleF32, mul: 1, size: 4 * NR, group: 32}

// A BytePanel is memory for NR rows of K numbers as bytes, and for what makes them.
type BytePanel struct {
	tier   Tier
	k      int
	blocks []byte // rows of Q8 blocks
	data   []byte // the panel
}

// byteRowStride is the distance of rows of Q8 blocks, none of which begins in the same cache set as another.
func byteRowStride(k int) int { return actStride(Q8, k) + q8BlockBytes }

// BytePanelBytes is the size of its memory.
func BytePanelBytes(k int) int { return NR*byteRowStride(k) + bytesPacking.panelBytes(quant.Q8_0, k) }

// NewBytePanel lays one of rows of k numbers, a multiple of 32, out in buf.
func NewBytePanel(tier Tier, buf []byte, k int) BytePanel {
	split := NR * byteRowStride(k)
	return BytePanel{tier, k, buf[:split], buf[split:BytePanelBytes(k)]}
}

// SetRow rounds row r of the panel.
func (p *BytePanel) SetRow(r int, row []float32) {
	p.tier.kernels().quantizeQ8(&p.blocks[r*byteRowStride(p.k)], q8BlockBytes, &row[0], p.k/32)
}

// Weights are the first rows of the panel, all of which have been set.
func (p *BytePanel) Weights(rows int) Weights {
	stride := byteRowStride(p.k)
	p.pack(p.blocks, q8BlockBytes, stride)
	for b := range p.k / 32 {
		scales, from := (*[NR]float32)(unsafe.Pointer(&p.data[b*4*NR])), &p.blocks[b*q8BlockBytes+q8Scale]
		for r := range scales {
			scales[r] = *(*float32)(unsafe.Pointer(offset(from, r*stride)))
		}
	}
	return p.weights(rows)
}

// WeightsOf are NR rows of signed bytes, stride bytes apart, each with one scale: exactly what they stand for.
func (p *BytePanel) WeightsOf(codes []byte, stride int, scales *[NR]float32) Weights {
	p.pack(codes, 32, stride)
	for b := range p.k / 32 {
		*(*[NR]float32)(unsafe.Pointer(&p.data[b*4*NR])) = *scales
	}
	return p.weights(NR)
}

// pack interleaves the codes of NR rows of blocks.
func (p *BytePanel) pack(src []byte, step, stride int) {
	codes, block, pack := p.data[p.k/32*bytesPacking.size:], layoutU8.blockBytes(), p.tier.kernels().pack[opInt8]
	for half := range 2 {
		pack(&codes[4*half*planeBytes], block, block, &src[16*half], step, stride, p.k/32)
	}
}

func (p *BytePanel) weights(rows int) Weights {
	return Weights{Format: quant.Q8_0, Rows: rows, Cols: p.k, data: p.data, pack: &bytesPacking}
}

// ByteActs is Q8 of m rows of k for products with such panels, in the memory that ActBytes says.
func ByteActs(tier Tier, buf []byte, m, k int) Acts {
	if group := ScaleGroup(tier, quant.Q8_0, k); group > 0 && Grouped(tier, m) {
		return GroupedActs(tier, buf, m, k, group)
	}
	return TiledActs(tier, buf, m, k)
}
