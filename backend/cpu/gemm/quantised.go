package gemm

// unpackTiles is from how many tiles of activations on it pays to unpack codes to bytes once, rather than in every
// tile's kernel: unpacking costs about what three tiles would spend on it.
const unpackTiles = 4

// quantised multiplies packed weights with lines of activations.
func (p *product) quantised(pack *packing) {
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
				p.codes(pack, unit, k, min(step, end-k), unpacked)
			}
		}
	}
}

// codes multiplies k in [k, k+n) of one unit of 32 rows with every tile of activations.
func (p *product) codes(pack *packing, unit, k, n int, unpacked bool) {
	scales, codes := p.w.unit(unit, pack)
	block := p.w.Format.Block()
	expanded, mins := &p.s.scales[0], (*float32)(nil)
	if pack.mins {
		mins = &p.s.mins[0]
	}
	form, blocks := pack.form, n/32
	packed := &codes[k/32*form.blockBytes()]
	ahead := address(packed) + aheadBytes
	p.scales[pack.scale](expanded, mins, &scales[k/block*pack.bytes], n/block, ahead, pack.mul, pack.off)
	weights := packed
	if unpack := p.unpack[form]; unpacked && unpack != nil {
		unpack(&p.s.panel[0], weights, blocks)
		form, weights = form.unpacked(), &p.s.panel[0]
	}
	dot := p.dot[form]
	fetch := fetching{from: ahead, idle: address(&p.s.panel[0]), bytes: blocks * pack.form.blockBytes(), tiles: p.tiles(len(dot))}
	p.eachTile(len(dot), func(row, rows int) {
		out, ld := p.target(unit, row, rows)
		act := p.acts.at(row, k/32*lineBytes)
		ahead := fetch.next(blocks * form.aheadLines(rows) * 64)
		for r := 0; r < Granule; r += p.rows {
			m := mins
			if m != nil {
				m = offsetFloats(mins, r)
			}
			dot[rows-1](offsetFloats(out, r), ld, p.fresh && k == 0, offset(weights, 4*r), offsetFloats(expanded, r), act, p.acts.stride, blocks, ahead[0], ahead[1], m)
		}
		p.finish(unit, row, rows)
	})
}
