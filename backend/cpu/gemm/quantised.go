package gemm

// unpackTiles is from how many tiles of activations on it pays to unpack codes to bytes once, rather than in every
// tile's kernel: unpacking costs about what three tiles would spend on it.
const unpackTiles = 4

// quantised multiplies packed weights with lines of activations.
func (p *product) quantised(pack *packing) {
	if tile := p.tileKernel(pack); tile != nil {
		p.tiled(pack, tile)
		return
	}
	most := len(p.dot[pack.form])
	unpacked := p.tiles(most) >= unpackTiles
	step := fewK
	if unpacked {
		step = panelK
	}
	pass := p.passK(step, lineBytes/32)
	for k0 := 0; k0 < p.w.Cols; k0 += pass {
		for unit := p.from / Granule; unit*Granule < p.to; unit++ {
			end := min(k0+pass, p.w.Cols)
			for k := k0; k < end; k += step {
				_, codes := p.packed(pack, unit, k)
				ahead := address(codes) + aheadBytes
				c := p.ready(pack, unit, k, min(step, end-k), ahead, unpacked)
				fetch := fetching{from: ahead, idle: address(&p.s.panel[0]), bytes: c.blocks * pack.form.blockBytes(), tiles: p.tiles(most)}
				p.dots(c, unit, k, fetch)
			}
		}
	}
}

// chunk is some blocks of one unit of 32 rows, ready to be multiplied.
type chunk struct {
	form         formID
	blocks       int // of 32 k
	codes        *byte
	scales, mins *float32 // expanded; mins may be nil
}

// packed is where the scales and codes of a unit from k on lie in memory.
func (p *product) packed(pack *packing, unit, k int) (scales, codes *byte) {
	s, c := p.w.unit(unit, pack)
	return &s[k/p.w.Format.Block()*pack.bytes], &c[k/32*pack.form.blockBytes()]
}

// ready expands the scales of k in [k, k+n) of one unit and, if asked to, unpacks its codes; some memory is read ahead.
func (p *product) ready(pack *packing, unit, k, n int, ahead uintptr, unpacked bool) chunk {
	scales, codes := p.packed(pack, unit, k)
	c := chunk{form: pack.form, blocks: n / 32, codes: codes, scales: &p.s.scales[0]}
	if pack.mins {
		c.mins = &p.s.mins[0]
	}
	p.scales[pack.scale](c.scales, c.mins, scales, n/p.w.Format.Block(), ahead, pack.mul, pack.off)
	if unpack := p.unpack[pack.form]; unpacked && unpack != nil {
		unpack(&p.s.panel[0], codes, c.blocks)
		c.form, c.codes = p.unpackedForm(pack.form), &p.s.panel[0]
	}
	return c
}

// dots multiplies a chunk that starts at k with every tile of activations.
func (p *product) dots(c chunk, unit, k int, fetch fetching) {
	dot := p.dot[c.form]
	p.eachTile(len(dot), func(row, rows int) {
		out, ld := p.target(unit, row, rows)
		act := p.acts.at(row, k/32*lineBytes)
		ahead := fetch.next(c.blocks * c.form.aheadLines(rows) * 64)
		for r := 0; r < Granule; r += p.rows {
			m := c.mins
			if m != nil {
				m = offsetFloats(m, r)
			}
			dot[rows-1](offsetFloats(out, r), ld, k == 0, offset(c.codes, 4*r), offsetFloats(c.scales, r), act, p.acts.stride, c.blocks, ahead[0], ahead[1], m)
		}
		p.finish(unit, row, rows)
	})
}
