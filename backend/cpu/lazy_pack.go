package cpu

import (
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/backend/cpu/threads"
)

// Weights in block formats are packed into the kernels' layout when steps use them, not when the model is loaded, so that the
// first token does not wait for memory: writing a copy of all weights takes new pages, which the system fills with zeroes
// first, and a guest may have to get them from its host (65 to 2,000 ms for 767 MB were measured).
//
// A step of few rows streams a matrix that is not packed through a buffer, block after block, and multiplies from there: the
// buffer stays in the L2 cache. The steps after it pack what has been used for good, a part each, so that no token
// waits for all of it. A step of many rows, which would read each block too often, packs at once.

const (
	// maxStreamRows is the most rows of activations for which weights are streamed through the buffer.
	maxStreamRows = 128
	// packSteps is over how many steps packing is spread. Streaming all weights takes as long as two steps of decoding.
	packSteps = 4
)

// releaseBytes is how much of a file a worker releases at a time: enough that the calls cost little, and little relative to
// the weights.
const releaseBytes = 4 << 20

// maxBlocks is how many of its own blocks a worker takes at once, as long as they are no more than a quarter of what is left of
// them: between two calls of Mul memory bandwidth is unused.
const maxBlocks = 4

// matmul is a bound matrix to multiply with.
type matmul struct {
	d       *Device
	matrix  *matrix
	blocks  *threads.BlockQueue
	tiles   *threads.TileQueue
	bias    vector
	decoded bool // the matrix is dequantised a panel at a time, and never packed
}

func newMatmul(d *Device, m *matrix, bias vector) *matmul {
	workers := d.pool.N()
	p := &matmul{d: d, matrix: m, blocks: threads.NewBlockQueue(blocksOf(m.weights, workers)), tiles: threads.NewTileQueue(m.Rows, gemm.NR, workers), bias: bias}
	if m.stage != packed {
		d.packBufferBytes = max(d.packBufferBytes, gemm.PackedBytes(m.Format, min(p.blocks.Size, m.Rows), m.Cols))
	}
	return p
}

// run computes the worker's share of m rows: of worker.acts to worker.out.
func (p *matmul) run(w *worker, m int) {
	weights, stage := p.matrix.weights, p.matrix.stage
	if stage != packed {
		p.runUnpacked(w, m)
		return
	}
	switch {
	case gemm.Streams(p.d.tier, weights, m):
		w.prefetch(weights)
		for from, to := p.take(w, maxBlocks); from < to; from, to = p.take(w, maxBlocks) {
			p.multiply(w, weights, m, 0, from, to)
		}
	case w.acts.Format == gemm.Q8:
		p.runPasses(w, weights, m)
	default: // floats, whose activations are packed for every call of Mul
		from, to := w.share(weights.Rows, gemm.NR)
		p.multiply(w, weights, m, 0, from, to)
	}
}

// runPasses computes tiles of a matmul with many rows of activations until all are taken.
func (p *matmul) runPasses(w *worker, weights *gemm.Weights, m int) {
	rows := w.acts.PassRows()
	passes := (m + rows - 1) / rows
	for {
		tiles, ok := p.tiles.Next(p.d.steps, w.id, passes)
		if !ok {
			return
		}
		first, last := tiles.Pass*rows, min((tiles.Pass+1)*rows, m)
		gemm.Mul(p.d.tier, w.out, p.matrix.Rows, weights, tiles.From, tiles.To, &w.acts, first, last, w.scratch)
		addBias(w.out, p.bias, first, last, p.matrix.Rows, tiles.From, tiles.To)
	}
}

// take is the worker's next rows.
func (p *matmul) take(w *worker, most int) (from, to int) {
	return p.blocks.Next(p.d.steps, w.id, most)
}

// multiply computes outputs [from, to) of m rows; weights holds the matrix from row first on.
func (p *matmul) multiply(w *worker, weights *gemm.Weights, m, first, from, to int) {
	gemm.Mul(p.d.tier, w.out[first:], p.matrix.Rows, weights, from-first, to-first, &w.acts, 0, m, w.scratch)
	addBias(w.out, p.bias, 0, m, p.matrix.Rows, from, to)
}

// runUnpacked is run for a matrix that is not packed.
func (p *matmul) runUnpacked(w *worker, m int) {
	pass := p.matrix.stage != due && m <= maxStreamRows
	if w.id == 0 {
		p.matrix.next = packed
		if pass {
			p.matrix.next = streamed
		}
	}
	switch {
	case pass:
		for from, to := p.take(w, 1); from < to; from, to = p.take(w, 1) {
			w.view = p.matrix.weights.Part(from, to, p.d.packBufferOf(w))
			part := p.matrix.RowSpan(from, to)
			gemm.Pack(p.d.tier, w.view.Bytes(0, to-from), part, 0, to-from)
			rest := p.matrix.RowSpan(to, p.matrix.Rows).Data
			w.scratch.PrefetchBytes(rest)
			p.multiply(w, &w.view, m, from, from, to)
		}
		w.scratch.PrefetchBytes(nil)
	case gemm.Streams(p.d.tier, p.matrix.weights, m):
		for from, to := p.take(w, 1); from < to; from, to = p.take(w, 1) {
			p.packRows(w, from, to)
			p.multiply(w, p.matrix.weights, m, 0, from, to)
		}
	default:
		from, to := p.packShare(w)
		p.multiply(w, p.matrix.weights, m, 0, from, to)
	}
	p.releasePacked(w)
}

// packRows packs rows [from, to) for good, and releases them in the file when there are many: w.packed grows while the rows of
// one call follow those of another.
func (p *matmul) packRows(w *worker, from, to int) {
	gemm.Pack(p.d.tier, p.matrix.weights.Bytes(from, to), p.matrix.Tensor, from, to)
	rowBytes := int(p.matrix.Format.RowBytes(p.matrix.Cols))
	if from != w.packed.to || (w.packed.to-w.packed.from)*rowBytes > releaseBytes {
		p.releasePacked(w)
		w.packed.from = from
	}
	w.packed.to = to
}

// packShare packs the worker's share of the rows.
func (p *matmul) packShare(w *worker) (from, to int) {
	from, to = w.share(p.matrix.Rows, gemm.NR)
	for at := from; at < to; at += gemm.NR {
		p.packRows(w, at, min(at+gemm.NR, to))
	}
	return from, to
}

// releasePacked releases, in the file, the rows that the worker has packed.
func (p *matmul) releasePacked(w *worker) {
	if w.packed.from < w.packed.to && p.matrix.release != nil {
		p.matrix.release(p.matrix.RowSpan(w.packed.from, w.packed.to).Data)
	}
	w.packed = rowRange{}
}

// packBufferOf is the worker's pack buffer.
func (d *Device) packBufferOf(w *worker) []byte {
	if int64(len(w.packBuffer)) < d.packBufferBytes {
		w.packBuffer = make([]byte, d.packBufferBytes)
	}
	return w.packBuffer
}

// advanceStages updates the matrices' stages after a step, and chooses which matrices the next step may pack.
func (d *Device) advanceStages() {
	still, left := d.unpacked[:0], d.packBudget
	for _, m := range d.unpacked {
		if m.stage = m.next; m.stage == packed {
			if m.matmulsOnly {
				m.Data = nil // which may be memory of our own, where a recipe made it
			}
			continue
		}
		if m.stage == streamed && left > 0 {
			m.stage, m.next = due, due
			left -= m.packed
		}
		still = append(still, m)
	}
	clear(d.unpacked[len(still):])
	if d.unpacked = still; len(still) == 0 {
		d.pool.dropBuffers()
	}
}

// Warm implements backend.Warmer: it packs all weights.
func (d *Device) Warm() {
	d.pack(d.unpacked)
	d.advanceStages()
}

// pack packs matrices outside a step.
func (d *Device) pack(all []*matrix) {
	d.pool.run(func(w *worker) {
		for _, m := range all {
			if m.stage == packed {
				continue
			}
			p := matmul{d: d, matrix: m}
			p.packShare(w)
			p.releasePacked(w)
		}
	})
	for _, m := range all {
		m.next = packed
	}
}
