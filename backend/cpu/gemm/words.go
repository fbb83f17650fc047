package gemm

// Without VNNI bytes are multiplied as words, 16 bits, where there are many rows: see tools/asm/gemm's words.

// A wordsFunc is a tileFunc for 16 rows of weights and activations in words.
type wordsFunc func(out *float32, ld int, fresh bool, w *byte, scale *float32, act *byte, blocks, tiles int, codes, codesEnd, scales, scalesEnd uintptr)

// A block of a tile of activations in words: [mr][32] words and then [mr] float32 scales, padded.
const (
	wordsRow   = 64
	wordsScale = wordsRow * mr
	wordsBlock = wordsScale + 32

	kcWords16 = 512 // numbers of k in a K-block of words: half a panel of NR rows takes 16 KiB of the L1 cache
)

// usesWords reports whether a pass over the weights multiplies words: if there are as many whole tiles as tile kernels take, and no minima.
func (p *matmul) usesWords(pack *packing) bool {
	return p.wordTile[pack.layout] != nil && !pack.mins && (p.wholeTiles() >= p.minTiles || p.wholeTiles() > 0 && p.acts.tiled > p.actFrom)
}

// wordsBlocks is how many blocks of tiles of activations there is room for, behind what tileSums is.
const wordsBlocks = (mcFloat*floatActStride - mc*4*NR) / wordsBlock

// mulWords multiplies packed weights with many rows of activations as words.
func (p *matmul) mulWords(pack *packing) {
	panels := (p.to + NR - 1) / NR
	pass := max(kcWords16, wordsBlocks/p.wholeTiles()*32/kcWords16*kcWords16)
	for k0 := 0; k0 < p.w.Cols; k0 += pass {
		end := min(k0+pass, p.w.Cols)
		for k := k0; k < end; k += kcWords16 {
			p.widenTiles(k0, k, min(kcWords16, end-k))
		}
		for panel := p.from / NR; panel < panels; panel++ {
			for k := k0; k < end; k += kcWords16 {
				nextPanel, next := panel, k+kcWords16
				if next >= end {
					nextPanel, next = min(panel+1, panels-1), k0
				}
				p.wordsKBlock(pack, panel, k, min(kcWords16, end-k), p.words(k0, k), p.prefetchRange(pack, nextPanel, next, min(kcWords16, end-next)))
			}
		}
	}
}

// words is where the words of a K-block of all whole tiles lie, in a pass that begins at k0.
func (p *matmul) words(k0, k int) *byte {
	return &p.s.acts[mc*4*NR+(k-k0)/32*p.wholeTiles()*wordsBlock]
}

// widenTiles makes words of k in [k, k+n) of all whole tiles.
func (p *matmul) widenTiles(k0, k, n int) {
	words := p.words(k0, k)
	for row := range p.wholeTiles() * mr {
		from := p.acts.blocksAt(p.actFrom+row, k)
		tile := offset(words, row/mr*(n/32)*wordsBlock)
		p.widenBlocks(offset(tile, row%mr*wordsRow), offset(tile, wordsScale+4*(row%mr)), wordsBlock, from.first, from.blockStride, n/32)
	}
}

// wordsKBlock multiplies k in [k, k+n) of one panel with all rows; act are the words of the whole tiles.
func (p *matmul) wordsKBlock(pack *packing, panel, k, n int, act *byte, ahead memRange) {
	c := p.prepare(pack, panel, k, n, address(&p.s.bPanel[0]), false)
	codes := c.codes
	if unpack := p.unpackTile[pack.layout]; unpack != nil {
		codes = &p.s.bPanel[0]
		unpack(codes, c.codes, c.blocks)
	}
	whole := p.wholeTiles() * mr
	out, ld := p.outTiles(panel, whole)
	for r := 0; r < NR; r += p.rows {
		p.unpackWords(&p.s.rows[0], offset(codes, 4*r), c.blocks)
		ahead := ahead.part(r/p.rows, NR/p.rows)
		p.wordTile[pack.layout](offsetFloats(out, r), ld, k == 0, &p.s.rows[0], offsetFloats(c.scales, r), act, c.blocks, whole/mr,
			ahead.codes, ahead.codesEnd, ahead.scales, ahead.scalesEnd)
	}
	p.storeTiles(panel, whole)
	p.multiplyRest(c, panel, k, whole)
}
