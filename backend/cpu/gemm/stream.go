package gemm

import "github.com/ridge-llm/ridge/quant"

// streamRows is the most rows of activations for which weights are streamed, one less than AVX-512's tile kernels need:
// reading the weights from memory takes about as long as multiplying with them, so the two must overlap.
const streamRows = 6*mr - 1

// Streams reports whether a matmul with m rows of activations reads the weights just once, so that it is as fast in parts as
// whole.
func Streams(tier Tier, w *Weights, m int) bool {
	if w.pack != nil {
		return m <= streamRows
	}
	kernels := tier.kernels()
	return m <= kernels.rowActs(w.Format == quant.BF16 && kernels.panelBF16 != nil)
}

// mulStream multiplies packed weights with few Q8 rows: one pass over the weights in memory order, prefetched all the while.
func (p *matmul) mulStream(pack *packing) {
	here := p.w.addrs(p.from, p.to)
	pre := &p.s.prefetch
	if !pre.separate && (here.from < pre.from || here.to > pre.to) {
		pre = &prefetcher{from: here.from, to: here.to}
		pre.start(p.w.distance())
	}
	if batch := p.batch[pack.layout]; batch != nil && p.actTo-p.actFrom >= minBatchRows {
		p.mulBatch(pack, batch, pre)
		return
	}
	unpacked := p.tiles(len(p.dot[pack.layout])) >= pack.layout.unpackTiles()
	for panel := p.from / NR; panel*NR < p.to; panel++ {
		for k := 0; k < p.w.Cols; k += kc {
			p.streamKBlock(pack, panel, k, min(kc, p.w.Cols-k), unpacked, pre)
		}
	}
}

// streamKBlock multiplies k in [k, k+n) of one panel of NR rows with every tile of activations.
func (p *matmul) streamKBlock(pack *packing, panel, k, n int, unpacked bool, pre *prefetcher) {
	scales, codes := n/p.w.Format.Block()*pack.size, n/32*pack.layout.blockBytes()
	cached := address(&p.s.bPanel[0])
	ahead := pre.next(scales+codes, cached)
	c := p.prepare(pack, panel, k, n, ahead, unpacked)
	fetch := tilePrefetch{from: ahead, cached: cached, bytes: codes, tiles: p.tiles(len(p.dot[c.layout]))}
	if ahead != cached {
		fetch.from += uintptr(scales)
	}
	p.dotTiles(c, panel, k, fetch)
}
