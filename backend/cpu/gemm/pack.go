package gemm

import (
	"github.com/ridge-llm/ridge/quant"
)

// Pack interleaves rows [from, to) of t into dst, the packed bytes of the whole matrix (PackedBytes long). from is a
// multiple of Granule, and so is to unless it is t.Rows. Ranges may be packed by different goroutines. dst may be
// t.Data itself if t.Rows is a multiple of Granule: every 32 rows then take the place they had.
func Pack(tier Tier, dst []byte, t quant.Tensor, from, to int) {
	p, k := packings[t.Format], tier.kernels()
	w := Weights{Format: t.Format, Rows: t.Rows, Cols: t.Cols, data: dst}
	rowBytes := int(t.Format.RowBytes(t.Cols))
	var copied []byte
	if len(dst) > 0 && &dst[0] == &t.Data[0] || to%Granule != 0 {
		copied = make([]byte, Granule*rowBytes)
	}
	for u := from / Granule; u*Granule < to; u++ {
		src := t.Data[u*Granule*rowBytes : min((u+1)*Granule, t.Rows)*rowBytes]
		if copied != nil {
			clear(copied[copy(copied, src):])
			src = copied
		}
		scales, codes := w.unit(u, &p)
		p.packScales(scales, src, t.Format, rowBytes)
		switch t.Format {
		case quant.Q4_0, quant.IQ4_NL:
			k.packNibbles(&codes[0], &src[0], rowBytes, t.Cols/32)
		case quant.Q8_0:
			k.packBytes(&codes[0], &src[0], rowBytes, t.Cols/32)
		default:
			for r := range Granule {
				p.packCodes(codes, src[r*rowBytes:(r+1)*rowBytes], t.Format, r)
			}
		}
	}
}

// packScales moves the scales of 32 rows to their place.
func (p *packing) packScales(dst, src []byte, f quant.Format, rowBytes int) {
	for r := range Granule {
		row, to := src[r*rowBytes:(r+1)*rowBytes], dst
		for ; len(row) > 0; row, to = row[f.BlockBytes():], to[p.bytes:] {
			p.scales(to, row, r)
		}
	}
}

// packCodes moves the codes of one row to their place among the 32.
func (p *packing) packCodes(dst, row []byte, f quant.Format, r int) {
	var c [8]uint32
	for ; len(row) > 0; row = row[f.BlockBytes():] {
		for sub := range f.Block() / 32 {
			p.codes(row, sub, &c)
			p.form.store(dst, r, &c)
			dst = dst[p.form.blockBytes():]
		}
	}
}
