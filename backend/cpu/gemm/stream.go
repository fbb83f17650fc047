package gemm

// streamRows is up to how many rows of activations weights are streamed: read from memory takes as long as to multiply
// them, so that all depends on doing both at once.
const streamRows = 32

// Streams reports whether a product with m rows of activations goes through the weights just once, so that it is as fast
// in pieces as whole.
func Streams(tier Tier, w *Weights, m int) bool {
	if w.pack != nil {
		return m <= streamRows
	}
	return m <= (unpackTiles-1)*len(tier.kernels().fourRow[0])
}

// stream multiplies packed weights with few lines of activations: once through the weights in the order in which they
// lie in memory, which is read ahead all the while.
func (p *product) stream(pack *packing) {
	unpacked := p.tiles(len(p.dot[pack.form])) >= unpackTiles
	here := p.w.span(p.from, p.to)
	reading := &p.s.reading
	if here.from < reading.from || here.to > reading.to {
		reading = &Reading{from: here.from, to: here.to}
		reading.start(p.w.distance())
	}
	for unit := p.from / Granule; unit*Granule < p.to; unit++ {
		for k := 0; k < p.w.Cols; k += panelK {
			p.chunk(pack, unit, k, min(panelK, p.w.Cols-k), unpacked, reading)
		}
	}
}

// chunk multiplies k in [k, k+n) of one unit of 32 rows with every tile of activations.
func (p *product) chunk(pack *packing, unit, k, n int, unpacked bool, reading *Reading) {
	scales, codes := p.w.unit(unit, pack)
	block, form, blocks := p.w.Format.Block(), pack.form, n/32
	expanded, mins := &p.s.scales[0], (*float32)(nil)
	if pack.mins {
		mins = &p.s.mins[0]
	}
	idle := address(&p.s.panel[0])
	scaleBytes, codeBytes := n/block*pack.bytes, blocks*form.blockBytes()
	ahead := reading.take(scaleBytes+codeBytes, idle)
	p.scales[pack.scale](expanded, mins, &scales[k/block*pack.bytes], n/block, ahead, pack.mul, pack.off)
	weights := &codes[k/32*form.blockBytes()]
	if unpack := p.unpack[form]; unpacked && unpack != nil {
		unpack(&p.s.panel[0], weights, blocks)
		form, weights = p.unpackedForm(form), &p.s.panel[0]
	}
	dot := p.dot[form]
	fetch := fetching{from: ahead, idle: idle, bytes: codeBytes, tiles: p.tiles(len(dot))}
	if ahead != idle {
		fetch.from += uintptr(scaleBytes)
	}
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
