package gemm

// A tileFunc adds the products of tiles of tileRows rows of activations with the rows of unpacked weights of one call, 32
// or 16, to out, or sets out to them. The activations' rows are stride bytes apart, their blocks step, and after a tile it goes on `next` bytes
// behind its end. Meanwhile two ranges of memory are read ahead, the next codes and the next scales; and the lines of out
// that the next tile will need, since those lie pages apart.
type tileFunc func(out *float32, ld int, fresh bool, w *byte, scale, mins *float32, act *byte, stride, step, next, blocks, tiles int, codes, codesEnd, scales, scalesEnd uintptr)

// tileRows is how many rows of activations a tile kernel multiplies at a time.
const tileRows = 6

// tileKernel multiplies codes of a form; nil where the tier has none or there are too few rows.
func (p *product) tileKernel(pack *packing) tileFunc {
	if p.wholeTiles() < p.leastTiles {
		return nil
	}
	if pack.mins {
		return p.tile[pack.form][1]
	}
	return p.tile[pack.form][0]
}

// wholeTiles is how many tiles the rows of activations fill.
func (p *product) wholeTiles() int { return (p.actTo - p.actFrom) / tileRows }

// tiled multiplies packed weights with many rows of activations: chunk by chunk, all whole tiles in one call.
func (p *product) tiled(pack *packing, tile tileFunc) {
	units := (p.to + Granule - 1) / Granule
	pass := p.passK(panelK, lineBytes/32)
	for k0 := 0; k0 < p.w.Cols; k0 += pass {
		end := min(k0+pass, p.w.Cols)
		acts := p.tileActs(k0, end)
		for unit := p.from / Granule; unit < units; unit++ {
			for k := k0; k < end; k += panelK {
				nextUnit, next := unit, k+panelK
				if next >= end {
					nextUnit, next = min(unit+1, units-1), k0
				}
				p.chunkTiles(pack, tile, unit, k, min(panelK, end-k), acts, p.ahead(pack, nextUnit, next, min(panelK, end-next)))
			}
		}
	}
}

// memory is two ranges of addresses.
type memory struct{ codes, codesEnd, scales, scalesEnd uintptr }

// ahead is what k in [k, k+n) of a unit takes in memory.
func (p *product) ahead(pack *packing, unit, k, n int) memory {
	scales, codes := p.packed(pack, unit, k)
	m := memory{codes: address(codes), scales: address(scales)}
	m.codesEnd = m.codes + uintptr(n/32*pack.form.blockBytes())
	m.scalesEnd = m.scales + uintptr(n/p.w.Format.Block()*pack.bytes)
	return m
}

// chunkTiles multiplies k in [k, k+n) of one unit with all rows.
func (p *product) chunkTiles(pack *packing, tile tileFunc, unit, k, n int, a tileActs, ahead memory) {
	c := p.ready(pack, unit, k, n, address(&p.s.panel[0]), false)
	rest := *p
	if (unit+1)*Granule <= p.to {
		panel, mins := c.codes, c.mins
		if unpack := p.unpackTile[pack.form]; unpack != nil {
			panel = &p.s.panel[0]
			unpack(panel, c.codes, c.blocks)
		}
		act, next := a.at(p, k, c.blocks)
		for r := 0; r < Granule; r += p.rows {
			if c.mins != nil {
				mins = offsetFloats(c.mins, r)
			}
			tile(&p.out[p.actFrom*p.ld+unit*Granule+r], 4*p.ld, p.fresh && k == 0, offset(panel, 4*r), offsetFloats(c.scales, r), mins, act,
				a.stride, a.step, next, c.blocks, p.wholeTiles(), ahead.codes, ahead.codesEnd, ahead.scales, ahead.scalesEnd)
			ahead = memory{} // once is enough
		}
		rest.actFrom += p.wholeTiles() * tileRows
	}
	if rest.actFrom < rest.actTo {
		idle := address(c.codes)
		rest.dots(c, unit, k, fetching{from: idle, idle: idle, tiles: 1})
	}
}

// tileActs says how the activations of a pass lie: as they are, or copied together.
type tileActs struct {
	from         int // first k
	stride, step int // bytes from row to row of a tile, and from block to block
	gathered     bool
}

// Rows of lines a multiple of aliasBytes apart want the same few places of the second-level cache, which has 2,048 sets of
// 64 bytes or half as many; for gatherUnits units of weights or more it is worth copying them together first.
const (
	aliasBytes  = 8 << 10
	gatherUnits = 16
)

// tileActs readies [from, to) of k of all whole tiles: gathered, they lie as [chunk][tile][block][tileRows] lines.
func (p *product) tileActs(from, to int) tileActs {
	if p.acts.stride%aliasBytes != 0 || p.to-p.from < gatherUnits*Granule {
		return tileActs{from: from, stride: p.acts.stride, step: lineBytes}
	}
	dst := p.s.acts
	for k := from; k < to; k += panelK {
		blocks := min(panelK, to-k) / 32
		for tile := range p.wholeTiles() {
			p.gatherTile(&dst[0], p.acts.at(p.actFrom+tile*tileRows, k/32*lineBytes), p.acts.stride, blocks)
			dst = dst[blocks*tileRows*lineBytes:]
		}
	}
	return tileActs{from: from, stride: lineBytes, step: tileRows * lineBytes, gathered: true}
}

// at is where the lines from k on lie, and how far behind a tile's end the next begins.
func (a tileActs) at(p *product, k, blocks int) (act *byte, next int) {
	if a.gathered {
		return &p.s.acts[(k-a.from)/32*p.wholeTiles()*tileRows*lineBytes], 0
	}
	return p.acts.at(p.actFrom, k/32*lineBytes), tileRows*a.stride - blocks*lineBytes
}
