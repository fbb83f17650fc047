package cpu

import "github.com/ridge-llm/ridge/backend"

// blockRows is how many rows pass through all launches of a fused run before the next rows: a row of a 1B model's largest
// value is 32 KiB, so that what one launch writes is still in the L2 cache when the next reads it.
const blockRows = 4

// fuseRowBlocks is row-block fusion: it says, for each launch that begins a run of row-wise launches without a barrier between
// them, such as a product of two values and its quantization, how many launches the run has. A launch inside a run has 0, one by itself 1.
// It is scheduling and no fusion of operations (pass.Fuse): each launch computes what it would by itself. testdata/schedule shows the runs.
func fuseRowBlocks(launches []backend.Launch, wait []bool) []int {
	length := make([]int, len(launches))
	first := 0
	for i, l := range launches {
		if i == 0 || wait[i] || !l.(*launch).rowBlocks || !launches[first].(*launch).rowBlocks {
			first = i
		}
		length[first]++
	}
	return length
}

// runFused runs the fused run that begins with launch i: row block by row block of the step's rows where there are many.
func (d *Device) runFused(w *worker, i int) {
	s := d.schedule
	run := s.launches[i : i+s.fused[i]]
	if run[len(run)-1].(*launch).lora != nil && len(run) > 1 {
		d.runAdapted(w, i, run)
		return
	}
	parts := 1
	if tokens := len(d.batch.Tokens); len(run) > 1 {
		parts = (tokens + blockRows - 1) / blockRows
	}
	for part := range parts {
		w.block, w.blocks = part, parts
		for j, l := range run {
			w.next, w.q8 = s.next[i+j], s.q8[i+j]
			l.(*launch).run(w, d.batch)
		}
	}
}

// rowBlock is the current row block of rows [from, to).
func (w *worker) rowBlock(from, to int) (first, last int) {
	n := to - from
	return from + n*w.block/w.blocks, from + n*(w.block+1)/w.blocks
}

// rowShare is the current row block of the worker's share of n rows.
func (w *worker) rowShare(n int) (from, to int) { return w.rowBlock(w.share(n, 1)) }
