package gemm

import (
	"encoding/binary"
	"math"

	"github.com/ridge-llm/ridge/quant"
)

// Formats whose codes are indices into grids, or digits in other bases, are taken apart as they are packed: to bytes with float32 scales, for 16
// or for 32 numbers. Their packed weights are larger than the file's.

// withExpanded adds the packings of such formats, by their descriptors.
func withExpanded(all map[quant.Format]packing) map[quant.Format]packing {
	for _, f := range quant.GroupedFormats() {
		p := packing{layout: layoutU8, scale: scaleF32, mul: 1, size: f.Block() / 32 * 4 * NR, codes: true, group: 32}
		if f.Descriptor().CodeGroup == 16 {
			p.layout, p.size, p.group = layoutS8, 2*p.size, 0
		}
		all[f] = p
	}
	return all
}

// packExpanded interleaves the scales and codes of NR rows.
func (p *packing) packExpanded(scales, codes, src []byte, f quant.Format, rowBytes int) {
	block, bytes := f.Block(), f.BlockBytes()
	var numbers [256]int8
	var floats [256 / 16]float32
	every := 2 // of the scales of 16
	if p.layout.sub16() {
		every = 1
	}
	for r := range NR {
		row, at, scale := src[r*rowBytes:(r+1)*rowBytes], codes, scales
		for ; len(row) > 0; row = row[bytes:] {
			quant.GroupedCodes(f, numbers[:block], floats[:block/16], row[:bytes])
			for i := 0; i < block/16; i += every {
				binary.LittleEndian.PutUint32(scale[4*r:], math.Float32bits(floats[i]))
				scale = scale[4*NR:]
			}
			for k := 0; k < block; k += 4 {
				to := at[k/4*planeBytes+4*r:][:4]
				for i := range to {
					to[i] = byte(numbers[k+i]) + 128
				}
			}
			at = at[block/32*p.layout.blockBytes():]
		}
	}
}
