package gemm

import "unsafe"

// unpackTiles is the number of tiles of activations from which on it pays to unpack codes to bytes once, rather than in every
// tile's kernel: unpacking costs about what three tiles would spend on it.
const unpackTiles = 4

// mulQ8 multiplies packed weights with Q8 activations.
func (p *matmul) mulQ8(pack *packing) {
	if tile := p.tileKernel(pack); tile != nil {
		p.mulTiled(pack, tile)
		return
	}
	most := len(p.dot[pack.layout])
	unpacked := p.tiles(most) >= unpackTiles
	step := kcDirect
	if unpacked {
		step = kc
	}
	pass := p.kPerPass(step, q8BlockBytes/32)
	for k0 := 0; k0 < p.w.Cols; k0 += pass {
		for panel := p.from / NR; panel*NR < p.to; panel++ {
			end := min(k0+pass, p.w.Cols)
			for k := k0; k < end; k += step {
				_, codes := p.packedAt(pack, panel, k)
				ahead := address(codes) + prefetchDistance
				c := p.prepare(pack, panel, k, min(step, end-k), ahead, unpacked)
				fetch := tilePrefetch{from: ahead, cached: address(&p.s.bPanel[0]), bytes: c.blocks * pack.layout.blockBytes(), tiles: p.tiles(most)}
				p.dotTiles(c, panel, k, fetch)
			}
		}
	}
}

// kBlock is a K-block of one panel of NR rows, ready to be multiplied.
type kBlock struct {
	layout       codeLayout
	blocks       int // of 32 k
	codes        *byte
	scales, mins *float32 // expanded; mins may be nil
}

// packedAt is where the packed scales and codes of a panel from k on lie.
func (p *matmul) packedAt(pack *packing, panel, k int) (scales, codes *byte) {
	s, c := p.w.panel(panel, pack)
	return &s[k/p.w.Format.Block()*pack.size], &c[k/32*pack.layout.blockBytes()]
}

// prepare expands the scales of k in [k, k+n) of one panel to float32 and, if asked to, unpacks its codes; memory from ahead on is
// prefetched meanwhile.
func (p *matmul) prepare(pack *packing, panel, k, n int, ahead uintptr, unpacked bool) kBlock {
	scales, codes := p.packedAt(pack, panel, k)
	c := kBlock{layout: pack.layout, blocks: n / 32, codes: codes, scales: &p.s.scales[0]}
	if pack.mins {
		c.mins = &p.s.mins[0]
	}
	if pack.scale == scaleF32 {
		c.scales = (*float32)(unsafe.Pointer(scales))
	} else {
		p.scales[pack.scale](c.scales, c.mins, scales, n/p.w.Format.Block(), ahead, pack.mul, pack.off)
	}
	if unpack := p.unpack[pack.layout]; unpacked && unpack != nil {
		unpack(&p.s.bPanel[0], codes, c.blocks)
		c.layout, c.codes = p.unpackedLayout(pack.layout), &p.s.bPanel[0]
	}
	return c
}

// dotTiles multiplies a K-block that starts at k with every tile of activations.
func (p *matmul) dotTiles(c kBlock, panel, k int, fetch tilePrefetch) {
	dot := p.dot[c.layout]
	p.eachTile(len(dot), func(row, rows int) {
		out, ld := p.outTile(panel, row, rows)
		act := p.acts.at(row, k/32*q8BlockBytes)
		ahead := fetch.next(c.blocks * c.layout.prefetchLines(rows) * 64)
		features := p.rows
		if rows == 1 && p.wideRow {
			features = NR
		}
		for r := 0; r < NR; r += features {
			m := c.mins
			if m != nil {
				m = offsetFloats(m, r)
			}
			dot[rows-1](offsetFloats(out, r), ld, k == 0, offset(c.codes, 4*r), offsetFloats(c.scales, r), act, p.acts.rowStride, c.blocks, ahead[0], ahead[1], m)
		}
		p.storeTile(panel, row, rows)
	})
}
