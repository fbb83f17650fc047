package gemm

import (
	"unsafe"

	"github.com/ridge-llm/ridge/quant"
)

// mulFloat multiplies row-major float weights. For few rows of activations kernels run along the rows of the weights as they are
// stored, since reading them is what takes the time; for many, NR rows at a time are interleaved into a panel. The two sum
// in different orders, so batch-invariant activations take the first path however many rows there are.
func (p *matmul) mulFloat() {
	e := p.element()
	pairs := e == elementBF16 && p.acts.Format == BFloat16 && p.panelBF16 != nil
	if p.acts.BatchInvariant || p.actTo-p.actFrom <= p.rowActs(pairs) {
		p.zeroOut()
		p.mulRows(e)
		return
	}
	if pairs {
		e = elementPairs
	}
	perWord := 1
	if e == elementPairs {
		perWord = 2
	}
	step := kcWords * perWord
	for k := 0; k < p.w.Cols; k += step {
		n := min(step, p.w.Cols-k)
		words := (n + perWord - 1) / perWord
		acts := p.packActs(e, k, n)
		for panel := p.from / NR; panel*NR < p.to; panel++ {
			p.interleave(e, panel, k, n, words)
			p.panelTiles(e, panel, k, words, &acts)
		}
	}
}

// pairRowTiles is rowTiles where panels are of pairs of bf16, which are multiplied twice as fast.
const pairRowTiles = 3

// rowActs is the most rows of activations with which float weights are multiplied as they are stored: interleaving them costs as much as
// going along them loses with so many.
func (k *kernels) rowActs(pairs bool) int {
	if pairs {
		return pairRowTiles * len(k.fourRow[elementBF16])
	}
	return k.rowTiles * len(k.fourRow[elementF32])
}

// packActs copies numbers [k, k+n) of every row of activations together, as bf16 for pairs: rows a power of two apart would map to the
// same cache sets.
func (p *matmul) packActs(e element, k, n int) Acts {
	a := Acts{base: &p.s.acts[0], rowStride: floatActStride}
	for row := p.actFrom; row < p.actTo; row++ {
		src := floatsAt((*float32)(unsafe.Pointer(p.acts.at(row, 4*k))), n)
		dst := p.s.acts[(row-p.actFrom)*floatActStride:][:floatActStride]
		if e != elementPairs {
			copy(floatsAt((*float32)(unsafe.Pointer(&dst[0])), n), src)
			continue
		}
		whole := n / 16
		if whole > 0 {
			p.narrowBF16(&dst[0], &src[0], whole)
		}
		if rest := p.s.tile[:copy(p.s.tile, src[16*whole:])]; len(rest) > 0 {
			clear(p.s.tile[len(rest):16]) // the last pair may need a zero
			p.narrowBF16(&dst[32*whole], &rest[0], 1)
		}
	}
	return a
}

// element is the pair of formats to multiply.
func (p *matmul) element() element {
	switch {
	case p.w.Format == quant.BF16:
		return elementBF16
	case p.w.Format == quant.F16:
		return elementF16
	}
	return elementF32
}

// weight is where number k of row n lies.
func (p *matmul) weight(n, k int) []byte { return p.w.data[(n*p.w.Cols+k)*p.w.Format.BlockBytes():] }

// address is the same as a number, which may lie beyond the matrix.
func (p *matmul) address(n, k int) uintptr {
	return address(&p.w.data[0]) + uintptr((n*p.w.Cols+k)*p.w.Format.BlockBytes())
}

// panelTiles multiplies the panel of k on with every tile of the packed activations. Meanwhile the next panel's bytes
// are prefetched, a few rows during each tile.
func (p *matmul) panelTiles(e element, panel, k, words int, acts *Acts) {
	kernel := p.panelF32
	if e == elementPairs {
		kernel = p.panelBF16
	}
	rowBytes, bytes := p.w.Cols*p.w.Format.BlockBytes(), 4*words
	if e == elementBF16 || e == elementF16 {
		bytes /= 2
	}
	next := p.address((panel+1)*NR, k)
	fetched, share := 0, NR/p.tiles(len(kernel))+1
	p.eachTile(len(kernel), func(row, rows int) {
		ahead, step := next+uintptr(fetched*rowBytes), bytes/words
		switch {
		case fetched >= NR:
			ahead, step = address(&p.s.bPanel[0]), 0 // which is in the cache already
		case share > 1 && p.prefetchRows != nil:
			p.prefetchRows(ahead+uintptr(rowBytes), rowBytes, share-1, bytes)
		}
		fetched += share
		out, ld := p.outTile(panel, row, rows)
		for r := 0; r < NR; r += p.rows {
			kernel[rows-1](offsetFloats(out, r), ld, k == 0, &p.s.bPanel[4*r], planeBytes, acts.at(row-p.actFrom, 0), acts.rowStride, 4, words, ahead, step)
		}
		p.storeTile(panel, row, rows)
	})
}

// interleave makes the panel [words][NR] out of n numbers of NR rows from k on: float32, or pairs of bf16.
func (p *matmul) interleave(e element, panel, k, n, words int) {
	first := panel * NR
	rows := min(NR, p.to-first)
	inPlace := e == elementF32 || e == elementPairs
	if inPlace && rows == NR && n*p.w.Format.BlockBytes()%16 == 0 {
		p.transpose(&p.weight(first, k)[0], p.w.Cols*p.w.Format.BlockBytes(), words)
		return
	}
	for r := range rows {
		dst := p.s.rows[r*4*kcWords : (r+1)*4*kcWords]
		src := p.weight(first+r, k)[:n*p.w.Format.BlockBytes()]
		if inPlace {
			clear(dst[copy(dst, src):])
			continue
		}
		p.widen(floatsAt((*float32)(unsafe.Pointer(&dst[0])), n), src)
	}
	p.transpose(&p.s.rows[0], 4*kcWords, words)
}

// transpose writes words of 32 rows, stride bytes apart, to the panel.
func (p *matmul) transpose(src *byte, stride, words int) {
	p.pack[opWords](&p.s.bPanel[0], 4*planeBytes, 0, src, 16, stride, (words+3)/4)
}

// widen turns half floats of either kind into float32.
func (p *matmul) widen(dst []float32, src []byte) {
	kernel := p.widenF16
	if p.w.Format == quant.BF16 {
		kernel = p.widenBF16
	}
	if len(dst) >= 8 {
		kernel(&dst[0], &src[0], len(dst)/8)
	}
	for i := len(dst) &^ 7; i < len(dst); i++ {
		dst[i] = number(p.w.Format, src, i)
	}
}

// mulRows multiplies without a panel: four rows of weights at a time, then one.
func (p *matmul) mulRows(e element) {
	n, whole := p.from, p.w.Cols/p.lanes
	rowBytes := p.w.Cols * p.w.Format.BlockBytes()
	for ; n+4 <= p.to && whole > 0; n += 4 {
		p.eachTile(len(p.fourRow[e]), func(row, rows int) {
			p.fourRow[e][rows-1](&p.out[row*p.ld+n], 4*p.ld, &p.weight(n, 0)[0], rowBytes, p.acts.at(row, 0), p.acts.rowStride, whole)
		})
	}
	for ; n < p.to && whole > 0; n++ {
		for row := p.actFrom; row < p.actTo; row++ {
			p.oneRow[e](&p.out[row*p.ld+n], 4*p.ld, &p.weight(n, 0)[0], rowBytes, p.acts.at(row, 0), p.acts.rowStride, whole)
		}
	}
	p.tailK(whole * p.lanes)
}

// tailK adds what is left of k after the last whole vector.
func (p *matmul) tailK(from int) {
	for row := p.actFrom; row < p.actTo && from < p.w.Cols; row++ {
		act := floatsAt((*float32)(unsafe.Pointer(p.acts.at(row, 0))), p.w.Cols)
		for n := p.from; n < p.to; n++ {
			w, sum := p.weight(n, 0), &p.out[row*p.ld+n]
			for k := from; k < p.w.Cols; k++ {
				*sum += number(p.w.Format, w, k) * act[k]
			}
		}
	}
}
