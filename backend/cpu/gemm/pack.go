package gemm

import "github.com/ridge-llm/ridge/quant"

// Pack interleaves rows [from, to) of t into panels in dst, which holds those rows alone: PackedBytes of them. from is a multiple of
// NR, and so is to unless it is t.Rows. dst may be the rows' own bytes in t.Data if t.Rows is a multiple of NR and the format not one of
// pack_codes.go: every panel then has the size and place its rows had. The rows that follow, if t has them, are prefetched.
func Pack(tier Tier, dst []byte, t quant.Tensor, from, to int) {
	p, k := packings[t.Format], tier.kernels()
	w := Weights{Format: t.Format, Rows: to - from, Cols: t.Cols, data: dst, pack: &p}
	rowBytes := int(t.Format.RowBytes(t.Cols))
	var copied []byte
	if len(dst) > 0 && &dst[0] == &t.Data[from*rowBytes] || to%NR != 0 {
		copied = make([]byte, NR*rowBytes)
	}
	for u := from / NR; u*NR < to; u++ {
		src := t.Data[u*NR*rowBytes : min((u+1)*NR, t.Rows)*rowBytes]
		if k.prefetchRows != nil && (u+2)*NR <= t.Rows {
			// Below, 32 rows are read in parallel, more streams than the hardware prefetcher follows.
			k.prefetchRows(address(&t.Data[(u+1)*NR*rowBytes]), rowBytes, NR, rowBytes)
		}
		if copied != nil {
			clear(copied[copy(copied, src):])
			src = copied
		}
		scales, codes := w.panel(u-from/NR, &p)
		if p.codes {
			p.packExpanded(scales, codes, src, t.Format, rowBytes)
			continue
		}
		p.packScales(k, scales, src, t.Format, rowBytes)
		p.packCodes(k, codes, src, t.Format, rowBytes)
	}
}

// packScales interleaves the scales of NR rows.
func (p *packing) packScales(k *kernels, dst, src []byte, f quant.Format, rowBytes int) {
	block, n := f.BlockBytes(), rowBytes/f.BlockBytes()
	for i := range p.f16s {
		k.packF16(&dst[2*NR*i], p.size, &src[p.f16sAt+2*i], block, rowBytes, n)
	}
	for r := 0; r < NR && p.bytes > 0; r++ {
		row, to := src[r*rowBytes:(r+1)*rowBytes], dst[2*NR*p.f16s:]
		for {
			for i, v := range row[p.bytesAt : p.bytesAt+p.bytes] {
				to[NR*i+r] = v
			}
			if row = row[block:]; len(row) == 0 {
				break
			}
			to = to[p.size:]
		}
	}
}

// packCodes interleaves the codes of NR rows.
func (p *packing) packCodes(k *kernels, dst, src []byte, f quant.Format, rowBytes int) {
	block := p.layout.blockBytes()
	for _, step := range p.steps {
		to := &dst[step.sub*block+step.plane*planeBytes]
		k.pack[step.kind](to, f.Block()/32*block, step.step*block, &src[step.src], f.BlockBytes(), rowBytes, rowBytes/f.BlockBytes())
	}
}
