package cpu

import "github.com/ridge-llm/ridge/backend/cpu/gemm"

// Weights in block formats come into the kernels' layout when steps use them, not when the model is loaded, so that the
// first token does not wait for memory: writing a copy of all weights takes new pages, which the system fills with zeroes
// first, and a guest may have to get them from its host (65 to 2,000 ms for 767 MB were measured).
//
// A step of few rows takes a matrix that is not packed through a buffer, block after block, and multiplies from there: the
// buffer stays in the second-level cache. The steps after it pack what has been used for good, a part each, so that no token
// waits for all of it. A step of many rows, which would have to go through each block too often, packs at once.

const (
	// passing is up to how many rows of activations weights may pass through the buffer.
	passing = 128
	// lots is over how many steps packing is spread. To pass all weights takes as long as two steps of decoding.
	lots = 4
)

// releaseBytes is how much of a file a worker lets go of at a time: enough that the calls cost little, and little beside
// the weights.
const releaseBytes = 4 << 20

// product is a matrix to multiply with.
type product struct {
	d      *Device
	matrix *matrix
	blocks *claims
	many   *portions
	bias   vector
}

func newProduct(d *Device, m *matrix, bias vector) *product {
	workers := len(d.pool.workers)
	p := &product{d, m, &claims{blocks: blocksOf(m.weights, workers), taken: make([]taken, workers)}, newPortions(m.Rows, workers), bias}
	if m.stage != packed {
		d.buffer = max(d.buffer, gemm.PackedBytes(m.Format, min(p.blocks.block, m.Rows), m.Cols))
	}
	return p
}

// run computes the worker's share of m rows: of worker.acts to worker.out.
func (p *product) run(w *worker, m int) {
	weights, stage := p.matrix.weights, p.matrix.stage
	if stage != packed {
		p.firstUse(w, m)
		return
	}
	switch {
	case gemm.Streams(p.d.tier, weights, m):
		w.expect(weights)
		for from, to := p.take(w, mostBlocks); from < to; from, to = p.take(w, mostBlocks) {
			p.multiply(w, weights, m, 0, from, to)
		}
	case w.acts.Format == gemm.Q8:
		p.runPasses(w, weights, m)
	default: // floats, whose activations are copied together for every portion
		from, to := w.share(weights.Rows, gemm.NR)
		p.multiply(w, weights, m, 0, from, to)
	}
}

// runPasses computes portions of a product with many rows of activations until all are taken.
func (p *product) runPasses(w *worker, weights *gemm.Weights, m int) {
	rows := w.acts.PassRows()
	passes := (m + rows - 1) / rows
	for {
		part, ok := p.many.take(p.d.steps, w.id, passes)
		if !ok {
			return
		}
		first, last := part.pass*rows, min((part.pass+1)*rows, m)
		gemm.Mul(p.d.tier, w.out, p.matrix.Rows, weights, part.from, part.to, &w.acts, first, last, w.scratch)
		addBias(w.out, p.bias, first, last, p.matrix.Rows, part.from, part.to)
	}
}

func (p *product) take(w *worker, most int) (from, to int) {
	return p.blocks.take(p.d.steps, w.id, most)
}

// multiply computes outputs [from, to) of m rows; weights holds the matrix from row first on.
func (p *product) multiply(w *worker, weights *gemm.Weights, m, first, from, to int) {
	gemm.Mul(p.d.tier, w.out[first:], p.matrix.Rows, weights, from-first, to-first, &w.acts, 0, m, w.scratch)
	addBias(w.out, p.bias, 0, m, p.matrix.Rows, from, to)
}

// firstUse is run for a matrix that is not packed.
func (p *product) firstUse(w *worker, m int) {
	pass := p.matrix.stage != due && m <= passing
	if w.id == 0 {
		p.matrix.next = packed
		if pass {
			p.matrix.next = used
		}
	}
	switch {
	case pass:
		for from, to := p.take(w, 1); from < to; from, to = p.take(w, 1) {
			w.view = p.matrix.weights.Part(from, to, p.d.bufferOf(w))
			part := p.matrix.RowSpan(from, to)
			gemm.Pack(p.d.tier, w.view.Bytes(0, to-from), part, 0, to-from)
			rest := p.matrix.RowSpan(to, p.matrix.Rows).Data
			w.scratch.PrefetchBytes(rest)
			p.multiply(w, &w.view, m, from, from, to)
		}
		w.scratch.PrefetchBytes(nil)
	case gemm.Streams(p.d.tier, p.matrix.weights, m):
		for from, to := p.take(w, 1); from < to; from, to = p.take(w, 1) {
			p.fill(w, from, to)
			p.multiply(w, p.matrix.weights, m, 0, from, to)
		}
	default:
		from, to := p.fillShare(w)
		p.multiply(w, p.matrix.weights, m, 0, from, to)
	}
	p.letGo(w)
}

// fill packs rows [from, to) for good, and lets go of them in the file when there are many: w.done grows while the rows of
// one call follow those of another.
func (p *product) fill(w *worker, from, to int) {
	gemm.Pack(p.d.tier, p.matrix.weights.Bytes(from, to), p.matrix.Tensor, from, to)
	rowBytes := int(p.matrix.Format.RowBytes(p.matrix.Cols))
	if from != w.done.to || (w.done.to-w.done.from)*rowBytes > releaseBytes {
		p.letGo(w)
		w.done.from = from
	}
	w.done.to = to
}

// fillShare is fill for the worker's share of the rows.
func (p *product) fillShare(w *worker) (from, to int) {
	from, to = w.share(p.matrix.Rows, gemm.NR)
	for at := from; at < to; at += gemm.NR {
		p.fill(w, at, min(at+gemm.NR, to))
	}
	return from, to
}

// letGo lets go in the file of the rows that the worker has packed.
func (p *product) letGo(w *worker) {
	if w.done.from < w.done.to && p.matrix.release != nil {
		p.matrix.release(p.matrix.RowSpan(w.done.from, w.done.to).Data)
	}
	w.done = span{}
}

// bufferOf is the worker's buffer.
func (d *Device) bufferOf(w *worker) []byte {
	if int64(len(w.buffer)) < d.buffer {
		w.buffer = make([]byte, d.buffer)
	}
	return w.buffer
}

// settle notes how far matrices have come, after a step, and chooses what the next may pack.
func (d *Device) settle() {
	fresh, left := d.fresh[:0], d.lot
	for _, m := range d.fresh {
		if m.stage = m.next; m.stage == packed {
			continue
		}
		if m.stage == used && left > 0 {
			m.stage, m.next = due, due
			left -= m.packed
		}
		fresh = append(fresh, m)
	}
	clear(d.fresh[len(fresh):])
	if d.fresh = fresh; len(fresh) == 0 {
		d.pool.dropBuffers()
	}
}

// Warm implements backend.Warmer: all weights are packed.
func (d *Device) Warm() {
	d.pack(d.fresh)
	d.settle()
}

// pack packs matrices outside a step.
func (d *Device) pack(all []*matrix) {
	d.pool.run(func(w *worker) {
		for _, m := range all {
			if m.stage == packed {
				continue
			}
			p := product{d: d, matrix: m}
			p.fillShare(w)
			p.letGo(w)
		}
	})
	for _, m := range all {
		m.next = packed
	}
}
