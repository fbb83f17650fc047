package gemm

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/ridge-llm/ridge/quant"
)

// Weights that are decoded as they are used, whose codes stand for floats, are multiplied with several inputs as bytes: a panel of NR rows at a time is made
// signed bytes with a float scale for each 32 numbers, as inputs are in Q8. Where numbers are rounded for that, it loses as much again as the inputs' rounding does, 1/254
// of the largest of 32.

// bytesPacking is how such a panel is packed, bytesPacking16 one with a scale for each 16 numbers.
var (
	bytesPacking   = packing{layout: layoutU8, scale: scaleF32, mul: 1, size: 4 * NR, group: 32}
	bytesPacking16 = packing{layout: layoutS8, scale: scaleF32, mul: 1, size: 8 * NR}
)

// A BytePanel is memory for NR rows of K numbers as bytes, and for what makes them.
type BytePanel struct {
	tier   Tier
	k      int
	codes  []byte // rows of signed bytes
	scales []byte // and of float32 scales
	data   []byte // the panel
}

// byteStride is the distance of rows of n bytes: of long ones none begins in the same cache set as another.
func byteStride(n int) int {
	if n >= 512 {
		n += 64
	}
	return n
}

// BytePanelBytes is the size of its memory, less than 85 bytes for each of k, a multiple of 32.
func BytePanelBytes(k int) int {
	const behind = 16 // scales are read by fours
	return NR*(byteStride(k)+byteStride(k/4)) + behind + bytesPacking16.panelBytes(quant.Q8_0, k)
}

// NewBytePanel lays one of rows of k numbers, a multiple of 32, out in buf.
func NewBytePanel(tier Tier, buf []byte, k int) BytePanel {
	codes, size := NR*byteStride(k), BytePanelBytes(k)
	data := size - bytesPacking16.panelBytes(quant.Q8_0, k)
	return BytePanel{tier, k, buf[:codes], buf[codes:data], buf[data:size]}
}

// Row is the memory of row r: signed bytes, and scales for 32 or 16 of them.
func (p *BytePanel) Row(r int) (codes []byte, scales []float32) {
	at := &p.scales[r*byteStride(p.k/4)]
	return p.codes[r*byteStride(p.k):][:p.k], floatsAt((*float32)(unsafe.Pointer(at)), p.k/16)
}

// SetRow rounds row r of the panel to 127ths of the largest of 32 numbers.
func (p *BytePanel) SetRow(r int, row []float32) {
	codes, scales := p.Row(r)
	k := p.tier.kernels()
	if k.roundBytes != nil {
		k.roundBytes(&codes[0], &scales[0], &row[0], p.k/32)
		return
	}
	var block [q8BlockBytes]byte
	for b := range p.k / 32 {
		k.quantizeQ8(&block[0], q8BlockBytes, &row[32*b], 1)
		copy(codes[32*b:], block[:32])
		scales[b] = math.Float32frombits(binary.LittleEndian.Uint32(block[q8Scale:]))
	}
}

// Weights are the first rows of the panel, all of which have been set, with a scale for 32 numbers or, for all rows, for 16.
func (p *BytePanel) Weights(rows int, sub16 bool) Weights {
	packing := &bytesPacking
	if sub16 {
		packing = &bytesPacking16
	}
	scales := p.k / 32 * packing.size / planeBytes // of a row
	p.tier.kernels().pack[opWords](&p.data[0], 4*planeBytes, 0, &p.scales[0], 16, byteStride(p.k/4), (scales+3)/4)
	p.pack(packing, p.codes, byteStride(p.k))
	return p.weights(packing, rows)
}

// WeightsOf are NR rows of signed bytes, stride bytes apart, each with one scale: exactly what they stand for.
func (p *BytePanel) WeightsOf(codes []byte, stride int, scales *[NR]float32) Weights {
	p.pack(&bytesPacking, codes, stride)
	for b := range p.k / 32 {
		*(*[NR]float32)(unsafe.Pointer(&p.data[b*4*NR])) = *scales
	}
	return p.weights(&bytesPacking, NR)
}

// pack interleaves the codes of NR rows.
func (p *BytePanel) pack(packing *packing, src []byte, stride int) {
	codes, block, pack := p.data[p.k/32*packing.size:], packing.layout.blockBytes(), p.tier.kernels().pack[opInt8]
	for half := range 2 {
		pack(&codes[4*half*planeBytes], block, block, &src[16*half], 32, stride, p.k/32)
	}
}

func (p *BytePanel) weights(packing *packing, rows int) Weights {
	return Weights{Format: quant.Q8_0, Rows: rows, Cols: p.k, data: p.data[:packing.panelBytes(quant.Q8_0, p.k)], pack: packing}
}

// ByteActs is Q8 of m rows of k for products with such panels, in the memory that ActBytes says; sub16 says that some may have scales for 16 numbers.
func ByteActs(tier Tier, buf []byte, m, k int, sub16 bool) Acts {
	if group := ScaleGroup(tier, quant.Q8_0, k); group > 0 && Grouped(tier, m) && !sub16 {
		return GroupedActs(tier, buf, m, k, group)
	}
	return TiledActs(tier, buf, m, k)
}
