package gemm

import (
	"unsafe"

	"github.com/ridge-llm/ridge/quant"
)

// floats multiplies row-major float weights. Few rows of activations run along the rows of the weights as they lie in
// memory, since reading them is what takes the time; for many, 32 rows at a time are interleaved into a panel. The two sum
// in different orders, so rows that are to give what they give alone go the first way however many they are.
func (p *product) floats() {
	e := p.element()
	if p.acts.Alone || p.tiles(len(p.fourRow[e])) < unpackTiles {
		p.start()
		p.fewRows(e)
		return
	}
	if e == elementBF16 && p.acts.Format == BFloat16 && p.panelBF16 != nil {
		e = elementPairs
	}
	perWord := 1
	if e == elementPairs {
		perWord = 2
	}
	step := panelWords * perWord
	for k := 0; k < p.w.Cols; k += step {
		n := min(step, p.w.Cols-k)
		words := (n + perWord - 1) / perWord
		acts := p.gather(e, k, n)
		for unit := p.from / Granule; unit*Granule < p.to; unit++ {
			p.interleave(e, unit, k, n, words)
			p.panelTiles(e, unit, k, words, &acts)
		}
	}
}

// gather copies numbers [k, k+n) of every row of activations together, as bf16 for pairs: rows a power of two apart would
// all want the same few places of the caches.
func (p *product) gather(e element, k, n int) Acts {
	a := Acts{base: &p.s.acts[0], stride: passStride}
	for row := p.actFrom; row < p.actTo; row++ {
		src := floatsAt((*float32)(unsafe.Pointer(p.acts.at(row, 4*k))), n)
		dst := p.s.acts[(row-p.actFrom)*passStride:][:passStride]
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
func (p *product) element() element {
	switch {
	case p.w.Format == quant.BF16:
		return elementBF16
	case p.w.Format == quant.F16:
		return elementF16
	}
	return elementF32
}

// weight is where number k of row n lies.
func (p *product) weight(n, k int) []byte { return p.w.data[(n*p.w.Cols+k)*p.w.Format.BlockBytes():] }

// address is the same as a number, which may lie beyond the matrix.
func (p *product) address(n, k int) uintptr {
	return address(&p.w.data[0]) + uintptr((n*p.w.Cols+k)*p.w.Format.BlockBytes())
}

// panelTiles multiplies the panel of k on with every tile of the gathered activations. Meanwhile the next unit's bytes
// are read ahead, a few rows during each tile.
func (p *product) panelTiles(e element, unit, k, words int, acts *Acts) {
	panel := p.panel
	if e == elementPairs {
		panel = p.panelBF16
	}
	rowBytes, bytes := p.w.Cols*p.w.Format.BlockBytes(), 4*words
	if e == elementBF16 || e == elementF16 {
		bytes /= 2
	}
	next := p.address((unit+1)*Granule, k)
	fetched, share := 0, Granule/p.tiles(len(panel))+1
	p.eachTile(len(panel), func(row, rows int) {
		ahead, step := next+uintptr(fetched*rowBytes), bytes/words
		switch {
		case fetched >= Granule:
			ahead, step = address(&p.s.panel[0]), 0 // which is in the cache
		case share > 1 && p.fetchRows != nil:
			p.fetchRows(ahead+uintptr(rowBytes), rowBytes, share-1, bytes)
		}
		fetched += share
		out, ld := p.target(unit, row, rows)
		for r := 0; r < Granule; r += p.rows {
			panel[rows-1](offsetFloats(out, r), ld, k == 0, &p.s.panel[4*r], planeBytes, acts.at(row-p.actFrom, 0), acts.stride, 4, words, ahead, step)
		}
		p.finish(unit, row, rows)
	})
}

// interleave makes the panel [words][32] out of n numbers of 32 rows from k on: float32, or pairs of bf16.
func (p *product) interleave(e element, unit, k, n, words int) {
	first := unit * Granule
	rows := min(Granule, p.to-first)
	inPlace := e == elementF32 || e == elementPairs
	if inPlace && rows == Granule && n*p.w.Format.BlockBytes()%16 == 0 {
		p.transpose(&p.weight(first, k)[0], p.w.Cols*p.w.Format.BlockBytes(), words)
		return
	}
	for r := range rows {
		dst := p.s.rows[r*4*panelWords : (r+1)*4*panelWords]
		src := p.weight(first+r, k)[:n*p.w.Format.BlockBytes()]
		if inPlace {
			clear(dst[copy(dst, src):])
			continue
		}
		p.widen(floatsAt((*float32)(unsafe.Pointer(&dst[0])), n), src)
	}
	p.transpose(&p.s.rows[0], 4*panelWords, words)
}

// transpose writes words of 32 rows, stride bytes apart, to the panel.
func (p *product) transpose(src *byte, stride, words int) {
	p.pack[pieceWords](&p.s.panel[0], 4*planeBytes, 0, src, 16, stride, (words+3)/4)
}

// widen turns half floats of either kind into float32.
func (p *product) widen(dst []float32, src []byte) {
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

// fewRows multiplies without a panel: four rows of weights at a time, then one.
func (p *product) fewRows(e element) {
	n, whole := p.from, p.w.Cols/p.lanes
	rowBytes := p.w.Cols * p.w.Format.BlockBytes()
	for ; n+4 <= p.to && whole > 0; n += 4 {
		p.eachTile(len(p.fourRow[e]), func(row, rows int) {
			p.fourRow[e][rows-1](&p.out[row*p.ld+n], 4*p.ld, &p.weight(n, 0)[0], rowBytes, p.acts.at(row, 0), p.acts.stride, whole)
		})
	}
	for ; n < p.to && whole > 0; n++ {
		for row := p.actFrom; row < p.actTo; row++ {
			p.oneRow[e](&p.out[row*p.ld+n], 4*p.ld, &p.weight(n, 0)[0], rowBytes, p.acts.at(row, 0), p.acts.stride, whole)
		}
	}
	p.lastK(whole * p.lanes)
}

// lastK adds what is left of k after the last whole vector.
func (p *product) lastK(from int) {
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
