package gemm

import "unsafe"

// unpackTiles is from how many tiles of activations on it pays to unpack codes to bytes once, rather than in every
// tile's kernel: unpacking costs about what two tiles would spend on it.
const unpackTiles = 3

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
	expanded, mins := &p.s.scales[0], &p.s.mins[0]
	p.scales[pack.scale](expanded, mins, &scales[k/block*pack.bytes], n/block, pack.mul, pack.off)
	form, blocks := pack.form, n/32
	weights := &codes[k/32*form.blockBytes()]
	if unpack := p.unpack[form]; unpacked && unpack != nil {
		unpack(&p.s.panel[0], weights, blocks)
		form, weights = form.unpacked(), &p.s.panel[0]
	}
	dot := p.dot[form]
	p.eachTile(len(dot), func(row, rows int) {
		out, ld := p.target(unit, row, rows)
		act := p.acts.at(row, k/32*lineBytes)
		for r := 0; r < Granule; r += p.rows {
			dot[rows-1](offsetFloats(out, r), ld, offset(weights, 4*r), offsetFloats(expanded, r), act, p.acts.stride, blocks)
		}
		if pack.mins {
			p.minima(out, ld, offset(act, lineSum), rows, blocks, form.sub16())
		}
		p.finish(unit, row, rows)
	})
}

// minima adds minimum × sum of the activations for every block of a tile: a float product whose k are the blocks.
func (p *product) minima(out *float32, ld int, sums *byte, rows, blocks int, sub16 bool) {
	panel := p.panel[min(rows, len(p.panel))-1]
	mins := (*byte)(unsafe.Pointer(&p.s.mins[0]))
	const line = 4 * Granule
	for r := 0; r < Granule; r += p.rows {
		o, m := offsetFloats(out, r), offset(mins, 4*r)
		if !sub16 {
			panel(o, ld, m, line, sums, p.acts.stride, lineBytes, blocks)
			continue
		}
		// The sums of the halves of a block follow that of the whole; their minima take turns.
		panel(o, ld, m, 2*line, offset(sums, 4), p.acts.stride, lineBytes, blocks)
		panel(o, ld, offset(m, line), 2*line, offset(sums, 8), p.acts.stride, lineBytes, blocks)
	}
}
