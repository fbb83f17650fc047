package gemm

import "github.com/ridge-llm/ridge/quant"

// Pack interleaves rows [from, to) of t into dst, which holds those rows alone: PackedBytes of them. from is a multiple of
// Granule, and so is to unless it is t.Rows. dst may be the rows' own bytes in t.Data if t.Rows is a multiple of Granule:
// every 32 rows then take the place they had. The rows that follow, if t has them, are read ahead.
func Pack(tier Tier, dst []byte, t quant.Tensor, from, to int) {
	p, k := packings[t.Format], tier.kernels()
	w := Weights{Format: t.Format, Rows: to - from, Cols: t.Cols, data: dst}
	rowBytes := int(t.Format.RowBytes(t.Cols))
	var copied []byte
	if len(dst) > 0 && &dst[0] == &t.Data[from*rowBytes] || to%Granule != 0 {
		copied = make([]byte, Granule*rowBytes)
	}
	for u := from / Granule; u*Granule < to; u++ {
		src := t.Data[u*Granule*rowBytes : min((u+1)*Granule, t.Rows)*rowBytes]
		if k.fetchRows != nil && (u+2)*Granule <= t.Rows {
			// Below, 32 rows are read side by side, which no prefetcher of the processor's follows.
			k.fetchRows(address(&t.Data[(u+1)*Granule*rowBytes]), rowBytes, Granule, rowBytes)
		}
		if copied != nil {
			clear(copied[copy(copied, src):])
			src = copied
		}
		scales, codes := w.unit(u-from/Granule, &p)
		p.packScales(k, scales, src, t.Format, rowBytes)
		p.packCodes(k, codes, src, t.Format, rowBytes)
	}
}

// packScales moves the scales of 32 rows to their place.
func (p *packing) packScales(k *kernels, dst, src []byte, f quant.Format, rowBytes int) {
	block, n := f.BlockBytes(), rowBytes/f.BlockBytes()
	for i := range p.halves {
		k.packHalves(&dst[2*Granule*i], p.bytes, &src[p.halvesAt+2*i], block, rowBytes, n)
	}
	for r := 0; r < Granule && p.lines > 0; r++ {
		row, to := src[r*rowBytes:(r+1)*rowBytes], dst[2*Granule*p.halves:]
		for {
			for i, v := range row[p.linesAt : p.linesAt+p.lines] {
				to[Granule*i+r] = v
			}
			if row = row[block:]; len(row) == 0 {
				break
			}
			to = to[p.bytes:]
		}
	}
}

// packCodes interleaves the codes of 32 rows.
func (p *packing) packCodes(k *kernels, dst, src []byte, f quant.Format, rowBytes int) {
	block := p.form.blockBytes()
	for _, piece := range pieces[f] {
		to := &dst[piece.sub*block+piece.plane*planeBytes]
		k.pack[piece.kind](to, f.Block()/32*block, piece.step*block, &src[piece.src], f.BlockBytes(), rowBytes, rowBytes/f.BlockBytes())
	}
}
