package gemm

import "unsafe"

// A tileFunc adds the products of tiles of tileRows rows of activations with the rows of unpacked weights of one call, 32
// or 16, to out, or sets out to them. The activations' rows are stride bytes apart, their blocks step, and after a tile it goes on `next` bytes
// behind its end. Meanwhile two ranges of memory are read ahead, the next codes and the next scales; and the lines of out
// that the next tile will need, since those lie pages apart.
type tileFunc func(out *float32, ld int, fresh bool, w *byte, scale, mins *float32, act *byte, stride, step, next, blocks, tiles int, codes, codesEnd, scales, scalesEnd uintptr)

// tileRows is how many rows of activations a tile kernel multiplies at a time.
const tileRows = 6

// tileKernel multiplies codes of a form; nil where the tier has none or there are too few rows.
func (p *product) tileKernel(pack *packing) tileFunc {
	if whole := p.wholeTiles(); whole == 0 || whole < p.leastTiles && p.acts.tiled <= p.actFrom {
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
		for unit := p.from / Granule; unit < units; unit++ {
			for k := k0; k < end; k += panelK {
				nextUnit, next := unit, k+panelK
				if next >= end {
					nextUnit, next = min(unit+1, units-1), k0
				}
				p.chunkTiles(pack, tile, unit, k, min(panelK, end-k), p.ahead(pack, nextUnit, next, min(panelK, end-next)))
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
func (p *product) chunkTiles(pack *packing, tile tileFunc, unit, k, n int, ahead memory) {
	c := p.ready(pack, unit, k, n, address(&p.s.panel[0]), false)
	panel, mins := c.codes, c.mins
	if unpack := p.unpackTile[pack.form]; unpack != nil {
		panel = &p.s.panel[0]
		unpack(panel, c.codes, c.blocks)
	}
	act := p.acts.lines(p.actFrom, k)
	whole := p.wholeTiles() * tileRows
	out, ld := p.tileTarget(unit, whole)
	for r := 0; r < Granule; r += p.rows {
		if c.mins != nil {
			mins = offsetFloats(c.mins, r)
		}
		tile(offsetFloats(out, r), ld, k == 0, offset(panel, 4*r), offsetFloats(c.scales, r), mins, act.first,
			act.stride, act.step, act.tile-c.blocks*act.step, c.blocks, whole/tileRows, ahead.codes, ahead.codesEnd, ahead.scales, ahead.scalesEnd)
		ahead = memory{} // once is enough
	}
	p.finishTiles(unit, whole)
	if rest := *p; whole < p.actTo-p.actFrom {
		rest.actFrom += whole
		idle := address(c.codes)
		rest.dots(c, unit, k, fetching{from: idle, idle: idle, tiles: 1})
	}
}

// tileTarget is target for all whole tiles of a pass, rows of them.
func (p *product) tileTarget(unit, rows int) (sums *float32, ldBytes int) {
	n := unit * Granule
	if n+Granule <= p.to {
		return &p.out[p.actFrom*p.ld+n], 4 * p.ld
	}
	scratch := p.tileSums(rows)
	for i := range rows {
		at := (p.actFrom+i)*p.ld + n
		copy(scratch[i*Granule:(i+1)*Granule], p.out[at:at+p.to-n])
	}
	return &scratch[0], 4 * Granule
}

func (p *product) finishTiles(unit, rows int) {
	n := unit * Granule
	if n+Granule <= p.to {
		return
	}
	scratch := p.tileSums(rows)
	for i := range rows {
		at := (p.actFrom+i)*p.ld + n
		copy(p.out[at:at+p.to-n], scratch[i*Granule:])
	}
}

// tileSums is room for the sums of rows × 32, where products with floats keep activations.
func (p *product) tileSums(rows int) []float32 {
	return floatsAt((*float32)(unsafe.Pointer(&p.s.acts[0])), rows*Granule)
}
