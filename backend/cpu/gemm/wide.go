package gemm

import (
	"fmt"

	"github.com/ridge-llm/ridge/quant"
)

// Scaling every 32 products takes a fifth of a tile's time. In wide products, of many rows, codes are unpacked to bytes whose
// scale stands for 64 or 128 numbers of a row, rounded anew, and activations are rounded likewise: two or four times as many
// products follow one another without a float operation, and formats with minima or with scales for 16 weights cost no more than
// others. What both roundings lose is a fraction of what the format has lost already (TestWideError), but fewer rows do not lose it, so
// that a row's bits depend on how many come along.

// leastWide is from how many rows of activations on products may be wide; for fewer there are kernels that unpack in registers.
const leastWide = 36

// Wide reports whether m rows are enough for wide products.
func Wide(m int) bool { return m >= leastWide }

// wideGroups is how many numbers share a scale in wide products, chosen so that rounding adds little to what a format has lost. Q8_0,
// as exact as bytes can be, keeps its own scales, and its products their bits: it gains from where wide activations lie.
var wideGroups = map[quant.Format]int{
	quant.Q8_0: 32,
	quant.Q2_K: 128, quant.Q3_K: 128, quant.Q4_0: 128, quant.Q4_1: 128, quant.Q4_K: 128, quant.IQ4_NL: 128, quant.MXFP4: 128,
	quant.Q5_0: 64, quant.Q5_1: 64, quant.Q5_K: 64, quant.Q6_K: 64,
}

// WideGroup is how many numbers of a row of k may share a scale in products with weights of format f; 32: none but those that do in lines;
// 0: such products cannot be wide.
func WideGroup(tier Tier, f quant.Format, k int) int {
	group := wideGroups[f]
	for group > 32 && k%group != 0 {
		group /= 2
	}
	if tier.kernels().wideTile == nil {
		return 0
	}
	return group
}

// A group of wide activations is tileRows float32, the scale of each row, as many int32, its lineMagic − 128 Σ, and then
// [block][tileRows] 32 signed bytes. Groups lie as [chunk of panelK][tile of tileRows rows][group].
const (
	wideHead  = 64
	wideBias  = 4 * tileRows
	wideBlock = 32 * tileRows
)

func wideBytes(group int) int { return wideHead + group/32*wideBlock }

// WideActs is Lines of m ≥ leastWide rows of k for wide products alone, in the room that ActBytes says, with a scale for each group
// of so many numbers.
func WideActs(buf []byte, m, k, group int) Acts {
	a := NewActs(Lines, buf, m, k)
	if m < leastWide || group < 32 || k%group != 0 || panelK%group != 0 {
		panic(fmt.Sprintf("gemm: %d rows of %d activations cannot share scales in groups of %d", m, k, group))
	}
	a.group = group
	return a
}

// wideTileBytes is what a tile takes of a chunk that begins at k.
func (a *Acts) wideTileBytes(chunk int) int {
	return min(panelK, a.K-chunk) / a.group * wideBytes(a.group)
}

// wide is where the group of row r that begins at number k of it lies.
func (a *Acts) wide(r, k int) *byte {
	chunk := k / panelK * panelK
	tiles := (a.M + tileRows - 1) / tileRows
	return offset(a.base, chunk/a.group*wideBytes(a.group)*tiles+r/tileRows*a.wideTileBytes(chunk)+(k-chunk)/a.group*wideBytes(a.group))
}

// fillWide rounds a part of row r, numbers from on: whole groups.
func (a *Acts) fillWide(k *kernels, x []float32, r, from int) {
	for len(x) > 0 {
		n := min(len(x), panelK-from%panelK)
		to, row := a.wide(r, from), r%tileRows
		k.quantizeWide(offset(to, 4*row), offset(to, wideHead+32*row), &x[0], a.group/32, n/a.group)
		x, from = x[n:], from+n
	}
}

// A wideFunc is a tileFunc for wide activations and 32 rows of weights of one wide scale a group.
type wideFunc func(out *float32, ld int, fresh bool, w *byte, scale *float32, act *byte, blocks, groups, tiles int, codes, codesEnd, scales, scalesEnd uintptr)

// wide multiplies packed weights with wide activations.
func (p *product) wide(pack *packing) {
	units := (p.to + Granule - 1) / Granule
	for k := 0; k < p.w.Cols; k += panelK {
		for unit := p.from / Granule; unit < units; unit++ {
			nextUnit, next := unit+1, k
			if nextUnit == units {
				nextUnit, next = p.from/Granule, k+panelK
				if next >= p.w.Cols {
					nextUnit, next = unit, k
				}
			}
			p.chunkWide(pack, unit, k, min(panelK, p.w.Cols-k), p.ahead(pack, nextUnit, next, min(panelK, p.w.Cols-next)))
		}
	}
}

// chunkWide multiplies k in [k, k+n) of one unit with all rows.
func (p *product) chunkWide(pack *packing, unit, k, n int, ahead memory) {
	codes, scales := p.unpackWide(pack, unit, k, n)
	tile := func(out *float32, ld, row, tiles int) {
		p.wideTile(out, ld, k == 0, codes, scales, p.acts.wide(row, k), p.acts.group/32, n/p.acts.group, tiles,
			ahead.codes, ahead.codesEnd, ahead.scales, ahead.scalesEnd)
	}
	rows := p.actTo - p.actFrom
	whole := rows / tileRows * tileRows
	if unit*Granule+Granule > p.to {
		whole = 0 // all of them go through scratch
	}
	if whole > 0 {
		tile(&p.out[p.actFrom*p.ld+unit*Granule], 4*p.ld, p.actFrom, whole/tileRows)
	}
	if whole < rows {
		sums := p.tileSums((rows - whole + tileRows - 1) / tileRows * tileRows)
		p.eachWideSum(unit, whole, func(i int, out []float32) { copy(sums[i*Granule:(i+1)*Granule], out) })
		tile(&sums[0], 4*Granule, p.actFrom+whole, len(sums)/Granule/tileRows)
		p.eachWideSum(unit, whole, func(i int, out []float32) { copy(out, sums[i*Granule:]) })
	}
}

// unpackWide gives the codes of k in [k, k+n) of one unit as bytes, with one scale for each group and row.
func (p *product) unpackWide(pack *packing, unit, k, n int) (codes *byte, scales *float32) {
	if pack.form == formM4 { // whose numbers are unpacked ten times as large, to fill a byte
		tenth := *pack
		tenth.mul /= 10
		pack = &tenth
	}
	c := p.ready(pack, unit, k, n, address(&p.s.panel[0]), false)
	if pack.form == formU8 && p.acts.group == 32 {
		return c.codes, c.scales
	}
	group, lines := p.acts.group, p.acts.group/32
	if pack.form.sub16() {
		lines *= 2
	}
	mins := p.s.mins[:n/group*lines*Granule]
	if c.mins == nil {
		clear(mins)
	}
	p.ratios(c.scales, &mins[0], &p.s.wide[0], lines, n/group)
	p.rescale[pack.form](&p.s.panel[0], c.codes, c.scales, &mins[0], c.blocks)
	return &p.s.panel[0], &p.s.wide[0]
}

// eachWideSum goes through what rows first and on have in out of a unit.
func (p *product) eachWideSum(unit, first int, do func(i int, out []float32)) {
	n := unit * Granule
	for row := p.actFrom + first; row < p.actTo; row++ {
		do(row-p.actFrom-first, p.out[row*p.ld+n:row*p.ld+min(n+Granule, p.to)])
	}
}
