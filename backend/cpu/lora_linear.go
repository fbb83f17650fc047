package cpu

import (
	"slices"
	"unsafe"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
)

// Adapters of a step's sequences are read once, from memory, and take little arithmetic; the products beside them take much, and leave half of the memory's
// bandwidth unused. So matmuls of the same rows and the lora behind them are one run, in which both overlap:
//
//	h = A x of all matrices ─► barrier ─► some columns of W x, meanwhile B of those columns comes to the L2 cache ─► B h for them ─► more columns …
//
// It is scheduling, like row-block fusion: each number is computed as by the launches one after the other.

// adaptedRuns says, for each launch that begins a run of matmuls with the lora that changes what they make behind them, how many launches the run has, and fuses
// them. What comes after a run waits for all of it.
func adaptedRuns(launches []backend.Launch, wait []bool, fused []int) {
	for i, l := range launches {
		x := l.(*launch).lora
		if x == nil {
			continue
		}
		first := i - len(x.targets)
		if first < 0 || !wait[first] || !x.changes(launches[first:i]) || l.(*launch).writesBefore(launches[first:i]) {
			continue
		}
		fused[first] = i + 1 - first
		clear(fused[first+1 : i+1])
		if i+1 < len(wait) {
			wait[i+1] = true
		}
	}
}

// changes reports whether some launches are the matmuls whose results l changes, in order.
func (l *lora) changes(launches []backend.Launch) bool {
	for i, of := range launches {
		p := of.(*launch).linear
		if p == nil || p.rows != l.rows || unsafe.SliceData(p.out) != unsafe.SliceData(l.targets[i].y) {
			return false
		}
	}
	return true
}

// writesBefore reports whether a lora writes h where some matmuls, which come after that in a run, still read.
func (l *launch) writesBefore(matmuls []backend.Launch) bool {
	h := l.accesses[len(l.accesses)-1].at
	return slices.ContainsFunc(matmuls, func(of backend.Launch) bool {
		reads, writes := of.(*launch).uses(h)
		return reads || writes
	})
}

// overlaps reports whether the products of a step's matmuls prefetch what is beside them, and each sequence has one adapter. Elsewhere the order of a run
// gains nothing.
func (l *lora) overlaps(d *Device, matmuls []backend.Launch, b *backend.Batch) bool {
	m := b.Rows(l.rows)
	for _, of := range matmuls {
		p := of.(*launch).linear
		if w := p.matrix.weights; m == 0 || p.matrix.stage != packed || gemm.Beside(d.tier, w, 0, min(gemm.NR, w.Rows), m) == 0 {
			return false
		}
	}
	for _, u := range b.Adapters {
		if u.Nth > 0 {
			return false
		}
	}
	return true
}

// runAdapted runs matmuls and the lora behind them.
func (d *Device) runAdapted(w *worker, first int, run []backend.Launch) {
	s, b, last := d.schedule, d.batch, len(run)-1
	l := run[last].(*launch).lora
	w.block, w.blocks = 0, 1
	begin := func(i int) *linear {
		w.next, w.q8 = s.next[first+i], s.q8[first+i]
		return run[i].(*launch).linear
	}
	if !l.overlaps(d, run[:last], b) {
		for i := range last {
			begin(i).runAll(w, b)
		}
		w.sync()
		l.run(w, b)
		return
	}
	buffer := l.bufferOf(w)
	l.shrink(w, b, 0, buffer)
	w.sync()
	for i := range last {
		p := begin(i)
		m, weights := p.begin(w, b), p.matrix.weights
		w.prefetch(weights)
		for from, to := p.take(w, maxBlocks); from < to; from, to = p.take(w, maxBlocks) {
			w.scratch.PrefetchBeside(l.beside(w, b, i, from, to, gemm.Beside(d.tier, weights, from, to, m)))
			p.multiply(w, weights, m, 0, from, to)
			w.scratch.PrefetchBeside(nil)
			l.expand(b, 0, i, from, to, buffer)
		}
	}
}

// beside lists, evenly over n places, the addresses of what expand reads of adapters for columns [from, to) of a target.
func (l *lora) beside(w *worker, b *backend.Batch, target, from, to, n int) []uintptr {
	found, slot := w.found[:0], int32(-1)
	for _, u := range b.Adapters {
		a := l.targets[target].slots[u.Slot]
		if u.Slot == slot || a == nil || a.panels == nil {
			continue
		}
		slot = u.Slot
		at := uintptr(unsafe.Pointer(&a.panels[from*a.Rank()]))
		for end := at + uintptr(2*(to-from)*a.Rank()); at < end && len(found) < n; at += gemm.BesideBytes {
			found = append(found, at)
		}
	}
	for len(w.places) < n {
		w.places = append(w.places, 0)
	}
	places := w.places[:n]
	clear(places)
	for i, at := range found {
		places[i*n/len(found)] = at
	}
	w.found = found
	return places
}
