package gemm

import "unsafe"

// A tileFunc adds the products of tiles of mr rows of Q8 activations with the rows of unpacked weights of one call, 32 or 16, to
// out, or sets out to them. The activations' rows are stride bytes apart, their blocks step, and the next tile starts `next` bytes
// behind the end of the last. Meanwhile it prefetches two ranges of memory, the next codes and the next scales, and the cache lines of out
// that the next tile will write, since those lie pages apart.
type tileFunc func(out *float32, ld int, fresh bool, w *byte, scale, mins *float32, act *byte, stride, step, next, blocks, tiles int, codes, codesEnd, scales, scalesEnd uintptr)

// mr is MR, the rows of activations that a tile kernel multiplies at a time.
const mr = 6

// tileKernel is the tile kernel for a code layout; nil where the tier has none or there are too few rows.
func (p *matmul) tileKernel(pack *packing) tileFunc {
	if whole := p.wholeTiles(); whole == 0 || whole < p.minTiles && p.acts.tiled <= p.actFrom {
		return nil
	}
	if pack.mins {
		return p.tile[pack.layout][1]
	}
	return p.tile[pack.layout][0]
}

// wholeTiles is how many whole tiles of mr rows of activations there are.
func (p *matmul) wholeTiles() int { return (p.actTo - p.actFrom) / mr }

// mulTiled multiplies packed weights with many rows of activations: K-block by K-block, all whole tiles in one call of a kernel.
func (p *matmul) mulTiled(pack *packing, tile tileFunc) {
	panels := (p.to + NR - 1) / NR
	pass := p.kPerPass(kc, q8BlockBytes/32)
	for k0 := 0; k0 < p.w.Cols; k0 += pass {
		end := min(k0+pass, p.w.Cols)
		for panel := p.from / NR; panel < panels; panel++ {
			for k := k0; k < end; k += kc {
				nextPanel, next := panel, k+kc
				if next >= end {
					nextPanel, next = min(panel+1, panels-1), k0
				}
				p.tileKBlock(pack, tile, panel, k, min(kc, end-k), p.prefetchRange(pack, nextPanel, next, min(kc, end-next)))
			}
		}
	}
}

// memRange is two ranges of addresses to prefetch.
type memRange struct{ codes, codesEnd, scales, scalesEnd uintptr }

// part is one of so many equal parts of both: few tiles prefetch less in one call than a K-block takes.
func (m memRange) part(i, of int) memRange {
	cut := func(from, to uintptr) (uintptr, uintptr) {
		size := (to - from) / uintptr(of) &^ 63
		if i+1 < of {
			to = from + uintptr(i+1)*size
		}
		return from + uintptr(i)*size, to
	}
	m.codes, m.codesEnd = cut(m.codes, m.codesEnd)
	m.scales, m.scalesEnd = cut(m.scales, m.scalesEnd)
	return m
}

// prefetchRange is where k in [k, k+n) of a panel lies.
func (p *matmul) prefetchRange(pack *packing, panel, k, n int) memRange {
	scales, codes := p.packedAt(pack, panel, k)
	m := memRange{codes: address(codes), scales: address(scales)}
	m.codesEnd = m.codes + uintptr(n/32*pack.layout.blockBytes())
	m.scalesEnd = m.scales + uintptr(n/p.w.Format.Block()*pack.size)
	return m
}

// tileKBlock multiplies k in [k, k+n) of one panel with all rows.
func (p *matmul) tileKBlock(pack *packing, tile tileFunc, panel, k, n int, ahead memRange) {
	c := p.prepare(pack, panel, k, n, address(&p.s.bPanel[0]), false)
	codes, mins := c.codes, c.mins
	if unpack := p.unpackTile[pack.layout]; unpack != nil {
		codes = &p.s.bPanel[0]
		unpack(codes, c.codes, c.blocks)
	}
	act := p.acts.blocksAt(p.actFrom, k)
	whole := p.wholeTiles() * mr
	out, ld := p.outTiles(panel, whole)
	for r := 0; r < NR; r += p.rows {
		ahead := ahead.part(r/p.rows, NR/p.rows)
		if c.mins != nil {
			mins = offsetFloats(c.mins, r)
		}
		half := offset(codes, 4*r)
		if unpack := p.unpackHalf[pack.layout]; unpack != nil {
			unpack(&p.s.bPanel[0], half, c.blocks)
			half = &p.s.bPanel[0]
		}
		tile(offsetFloats(out, r), ld, k == 0, half, offsetFloats(c.scales, r), mins, act.first,
			act.rowStride, act.blockStride, act.tileStride-c.blocks*act.blockStride, c.blocks, whole/mr, ahead.codes, ahead.codesEnd, ahead.scales, ahead.scalesEnd)
	}
	p.storeTiles(panel, whole)
	p.multiplyRest(c, panel, k, whole)
}

// multiplyRest multiplies a K-block with the rows behind the whole tiles.
func (p *matmul) multiplyRest(c kBlock, panel, k, whole int) {
	if rest := *p; whole < p.actTo-p.actFrom {
		rest.actFrom += whole
		cached := address(c.codes)
		rest.dotTiles(c, panel, k, tilePrefetch{from: cached, cached: cached, tiles: 1})
	}
}

// outTiles is outTile for all whole tiles of a pass, of so many rows.
func (p *matmul) outTiles(panel, rows int) (sums *float32, ldBytes int) {
	n := panel * NR
	if n+NR <= p.to {
		return &p.out[p.actFrom*p.ld+n], 4 * p.ld
	}
	scratch := p.tileSums(rows)
	for i := range rows {
		at := (p.actFrom+i)*p.ld + n
		copy(scratch[i*NR:(i+1)*NR], p.out[at:at+p.to-n])
	}
	return &scratch[0], 4 * NR
}

// storeTiles is storeTile for outTiles.
func (p *matmul) storeTiles(panel, rows int) {
	n := panel * NR
	if n+NR <= p.to {
		return
	}
	scratch := p.tileSums(rows)
	for i := range rows {
		at := (p.actFrom+i)*p.ld + n
		copy(p.out[at:at+p.to-n], scratch[i*NR:])
	}
}

// tileSums is memory for the sums of rows × NR; float matmuls keep packed activations there.
func (p *matmul) tileSums(rows int) []float32 {
	return floatsAt((*float32)(unsafe.Pointer(&p.s.acts[0])), rows*NR)
}
