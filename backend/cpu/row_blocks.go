package cpu

import "github.com/ridge-llm/ridge/backend"

// blockRows is how many rows a chain takes through all of its launches before the next rows: a row of a 1B model's widest
// value is 32 KiB, so that what one launch makes is still in the second-level cache when the next reads it.
const blockRows = 4

// chains says, for each launch that begins a chain, how many launches it has: passes over rows, one behind another without a
// barrier, as a product of two values and its rounding are. A launch inside a chain has 0, one by itself 1.
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

// runFused runs the chain that begins with launch i: block by block of the step's rows where there are many.
func (d *Device) runFused(w *worker, i int) {
	chain := d.list[i : i+d.fused[i]]
	parts := 1
	if tokens := len(d.batch.Tokens); len(chain) > 1 {
		parts = (tokens + blockRows - 1) / blockRows
	}
	for part := range parts {
		w.block, w.blocks = part, parts
		for j, l := range chain {
			w.next, w.q8 = d.next[i+j], l.(*launch).q8
			l.(*launch).run(w, d.batch)
		}
	}
}

// block is the part at hand of rows [from, to) that the worker is to compute.
func (w *worker) rowBlock(from, to int) (first, last int) {
	n := to - from
	return from + n*w.block/w.blocks, from + n*(w.block+1)/w.blocks
}

// rowShare is the part at hand of the worker's share of n rows.
func (w *worker) rowShare(n int) (from, to int) { return w.rowBlock(w.share(n, 1)) }
