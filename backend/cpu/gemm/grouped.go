package gemm

import (
	"fmt"

	"github.com/ridge-llm/ridge/quant"
)

// Applying a scale every 32 products takes a fifth of a tile's time. In grouped matmuls, of many rows, weights are requantized to bytes
// with one scale per group of 64 or 128 numbers of a row, and activations have per-group scales likewise: two or four times as many
// integer products follow one another without a float operation, and formats with minima or with scales for 16 weights cost no more than
// others. The error of both roundings is a fraction of the format's own (TestGroupedError), but matmuls of fewer rows do not have it, so
// that a row's bits depend on how many rows the batch has.

// minGroupedRows is the number of rows of activations from which on matmuls may be grouped where there are batch kernels for fewer.
const minGroupedRows = 36

// Grouped reports whether m rows are enough for grouped matmuls. Fewer than minGroupedRows must also fill their tiles, all of which kernels multiply, so far
// that it is no loss.
func Grouped(tier Tier, m int) bool {
	k := tier.kernels()
	full := 16*m >= k.fill*((m+mr-1)/mr*mr)
	return k.minGrouped > 0 && m >= k.minGrouped && (full || m >= minGroupedRows)
}

// ScaleGroup is how many numbers of a row of k may share a scale in matmuls with weights of format f; 32: only those of a Q8 block;
// 0: such matmuls cannot be grouped.
func ScaleGroup(tier Tier, f quant.Format, k int) int {
	group := packings[f].group
	for group > 32 && k%group != 0 {
		group /= 2
	}
	kernels := tier.kernels()
	if kernels.groupedTile == nil && kernels.scaledTile[packings[f].layout][0] == nil {
		return 0
	}
	return group
}

// A group of activations is mr float32, the scale of each row, then words of mr rows, of sums of its bytes, and then [block][mr] 32 signed bytes.
// Groups lie as [K-block of kc][tile of mr rows][group]. Where weights have one scale for a group (see requantize), the sums are floatMagic − 128 Σ and padding;
// where they have whole multiples of it, pairs of 16 bits: Σ of either half of each block, of either block of each pair, and for each half of a block −Σ of k ≡ 0
// and 1 mod 4, and of 2 and 3.
const (
	groupSums  = 4 * mr
	groupBlock = 32 * mr
	mostGroup  = 128
)

// groupHeader is the size in bytes of what lies before the codes of a group of so many blocks.
func (k *kernels) groupHeader(blocks int) int {
	if k.wholeScales == nil {
		return 64
	}
	return groupSums * (1 + 3*blocks + (blocks+1)/2)
}

// groupBytes is the size in bytes of a group of mr rows.
func (a *Acts) groupBytes() int { return a.groupHeader + a.group/32*groupBlock }

// GroupedActs is Q8 of m rows of k, which must be Grouped, with per-group scales, one for each group of so many numbers, for grouped matmuls
// alone, in the memory that ActBytes says.
func GroupedActs(tier Tier, buf []byte, m, k, group int) Acts {
	a := NewActs(Q8, buf, m, k)
	if !Grouped(tier, m) || group < 32 || group > mostGroup || k%group != 0 || kc%group != 0 {
		panic(fmt.Sprintf("gemm: %d rows of %d activations cannot share scales in groups of %d", m, k, group))
	}
	a.group, a.groupHeader = group, tier.kernels().groupHeader(group/32)
	return a
}

// groupedTileBytes is the size of a tile's part of a K-block that begins at k0.
func (a *Acts) groupedTileBytes(k0 int) int {
	return min(kc, a.K-k0) / a.group * a.groupBytes()
}

// groupAt is the address of the group of row r that begins at number k.
func (a *Acts) groupAt(r, k int) *byte {
	k0 := k / kc * kc
	tiles := (a.M + mr - 1) / mr
	return offset(a.base, k0/a.group*a.groupBytes()*tiles+r/mr*a.groupedTileBytes(k0)+(k-k0)/a.group*a.groupBytes())
}

// fillGrouped quantizes a part of row r, numbers from on: whole groups.
func (a *Acts) fillGrouped(k *kernels, x []float32, r, from int) {
	for len(x) > 0 {
		n := min(len(x), kc-from%kc)
		to, row := a.groupAt(r, from), r%mr
		k.quantizeGrouped(offset(to, 4*row), offset(to, a.groupHeader+32*row), &x[0], a.group/32, n/a.group)
		x, from = x[n:], from+n
	}
}

// A groupedFunc is a tileFunc for grouped activations and weights with one scale per group.
type groupedFunc func(out *float32, ld int, fresh bool, w *byte, scale *float32, act *byte, blocks, groups, tiles int, codes, codesEnd, scales, scalesEnd uintptr)

// mulGrouped multiplies packed weights with grouped activations.
func (p *matmul) mulGrouped(pack *packing) {
	panels := (p.to + NR - 1) / NR
	for k := 0; k < p.w.Cols; k += kc {
		for panel := p.from / NR; panel < panels; panel++ {
			nextPanel, next := panel+1, k
			if nextPanel == panels {
				nextPanel, next = p.from/NR, k+kc
				if next >= p.w.Cols {
					nextPanel, next = panel, k
				}
			}
			p.groupedKBlock(pack, panel, k, min(kc, p.w.Cols-k), p.prefetchRange(pack, nextPanel, next, min(kc, p.w.Cols-next)))
		}
	}
}

// groupedKBlock multiplies k in [k, k+n) of one panel with all rows.
func (p *matmul) groupedKBlock(pack *packing, panel, k, n int, ahead memRange) {
	if p.scaledTile[pack.layout][0] != nil {
		p.scaledKBlock(pack, panel, k, n, ahead)
		return
	}
	codes, scales := p.requantize(pack, panel, k, n)
	tile := func(out *float32, ld, row, tiles int) {
		for r := 0; r < NR; r += p.rows {
			ahead := ahead.part(r/p.rows, NR/p.rows)
			p.groupedTile(offsetFloats(out, r), ld, k == 0, offset(codes, 4*r), offsetFloats(scales, r), p.acts.groupAt(row, k), p.acts.group/32, n/p.acts.group, tiles,
				ahead.codes, ahead.codesEnd, ahead.scales, ahead.scalesEnd)
		}
	}
	rows := p.actTo - p.actFrom
	whole := rows / mr * mr
	if panel*NR+NR > p.to {
		whole = 0 // all of them go through scratch
	}
	if whole > 0 {
		tile(&p.out[p.actFrom*p.ld+panel*NR], 4*p.ld, p.actFrom, whole/mr)
	}
	if whole < rows {
		sums := p.tileSums((rows - whole + mr - 1) / mr * mr)
		p.eachGroupedSum(panel, whole, func(i int, out []float32) { copy(sums[i*NR:(i+1)*NR], out) })
		tile(&sums[0], 4*NR, p.actFrom+whole, len(sums)/NR/mr)
		p.eachGroupedSum(panel, whole, func(i int, out []float32) { copy(out, sums[i*NR:]) })
	}
}

// requantize gives the codes of k in [k, k+n) of one panel as bytes, with one scale for each group and row.
func (p *matmul) requantize(pack *packing, panel, k, n int) (codes *byte, scales *float32) {
	if pack.layout == layoutM4 { // whose values are unpacked ten times as large, to use the range of a byte
		tenth := *pack
		tenth.mul /= 10
		pack = &tenth
	}
	c := p.prepare(pack, panel, k, n, address(&p.s.bPanel[0]), false)
	if pack.layout == layoutU8 && p.acts.group == 32 {
		return c.codes, c.scales
	}
	group, subBlocks := p.acts.group, p.acts.group/32
	if pack.layout.sub16() {
		subBlocks *= 2
	}
	mins := p.s.mins[:n/group*subBlocks*NR]
	if c.mins == nil {
		clear(mins)
	}
	p.requantScales(c.scales, &mins[0], &p.s.groupScales[0], subBlocks, n/group)
	p.requant[pack.layout](&p.s.bPanel[0], c.codes, c.scales, &mins[0], c.blocks)
	return &p.s.bPanel[0], &p.s.groupScales[0]
}

// eachGroupedSum calls do with what rows first and on have in out of a panel.
func (p *matmul) eachGroupedSum(panel, first int, do func(i int, out []float32)) {
	n := panel * NR
	for row := p.actFrom + first; row < p.actTo; row++ {
		do(row-p.actFrom-first, p.out[row*p.ld+n:row*p.ld+min(n+NR, p.to)])
	}
}
