package gemm

// streamRows is up to how many rows of activations weights are streamed, at most as many as are too few for wide tile kernels:
// reading them from memory takes about as long as multiplying with them, so that all depends on doing both at once.
const streamRows = 6*tileRows - 1

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
	here := p.w.span(p.from, p.to)
	reading := &p.s.reading
	if !reading.loose && (here.from < reading.from || here.to > reading.to) {
		reading = &Reading{from: here.from, to: here.to}
		reading.start(p.w.distance())
	}
	if batch := p.batch[pack.form]; batch != nil && p.actTo-p.actFrom >= leastBatch {
		p.batched(pack, batch, reading)
		return
	}
	unpacked := p.tiles(len(p.dot[pack.form])) >= pack.form.unpackTiles()
	for unit := p.from / Granule; unit*Granule < p.to; unit++ {
		for k := 0; k < p.w.Cols; k += panelK {
			p.chunk(pack, unit, k, min(panelK, p.w.Cols-k), unpacked, reading)
		}
	}
}

// chunk multiplies k in [k, k+n) of one unit of 32 rows with every tile of activations.
func (p *product) chunk(pack *packing, unit, k, n int, unpacked bool, reading *Reading) {
	scales, codes := n/p.w.Format.Block()*pack.bytes, n/32*pack.form.blockBytes()
	idle := address(&p.s.panel[0])
	ahead := reading.take(scales+codes, idle)
	c := p.ready(pack, unit, k, n, ahead, unpacked)
	fetch := fetching{from: ahead, idle: idle, bytes: codes, tiles: p.tiles(len(p.dot[c.form]))}
	if ahead != idle {
		fetch.from += uintptr(scales)
	}
	p.dots(c, unit, k, fetch)
}
