package recurrent

import (
	"math"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
)

// wideParams mirrors WideParams of gated_delta_heads.h.
type wideParams struct {
	Rows         driver.TensorMap
	Chunks       deltaChunksParams
	K, V         int32 // where keys and values begin in a row
	Pairs        int32 // of value heads of a key head
	Slots, First int32 // for chunks, and how many are prepared before others are gone through
	_            int32
	Ready        driver.Ptr // [Slots][KeyHeads × Pairs], not zero once it is prepared
	_            [8]int32
}

// kimiWideParams mirrors WideParams of kimi_delta_sm90.cu.
type kimiWideParams struct {
	Values driver.TensorMap
	Chunks deltaChunksParams
}

// wideDelta is the kernels for the chunks of keys of 128 numbers on Hopper, which load rows by TMA.
type wideDelta struct {
	shape           DeltaShape
	prepare, chunks *driver.Kernel
	first, both     *driver.Kernel // nil of KimiDelta
	context         *driver.Context
	sms             int
	rows            *driver.TensorMap // of queries, keys and values, of KimiDelta of values, once they are known
}

// What blocks have in shared memory: one that prepares a chunk for two heads, and one that goes through chunks: stages for what carries the
// state on and for what only the output needs, and rows of what a chunk gives (delta_wide.h).
const (
	wideThreads    = 384
	wideGroups     = 5 // that prepare chunks in a block of both kinds
	wideHeads      = (2*chunk*(chunk+4)*4 + 10*4*chunk + 1023) &^ 1023
	wideStages     = 4*(4*panel+factors) + 3*3*panel + panel
	kimiWideStages = 3*(6*panel+factors) + 2*3*panel + panel
	// Steps of one sequence with so many tokens have chunks prepared while others are gone through, but for the first firstPart-th of them.
	overlapFrom = 4096
	firstPart   = 6
)

// newWideDelta finds them.
func newWideDelta(l *kernels.Loader, s DeltaShape) (w *wideDelta, err error) {
	w = &wideDelta{shape: s, context: l.Context(), sms: l.SMs()}
	find := func(to **driver.Kernel, module, name string, shared int) {
		if err == nil {
			*to, err = l.Kernel("recurrent/"+module, name, shared)
		}
	}
	if s.EachKey {
		_, _, shared := s.prepared()
		find(&w.prepare, "kimi_delta_chunks", "kimi_delta_prepare", shared)
		find(&w.chunks, "kimi_delta_sm90", "kimi_delta_wide_chunks", kimiWideStages)
		return w, err
	}
	find(&w.prepare, "gated_delta_sm90", "gated_delta_wide_prepare", wideHeads)
	find(&w.chunks, "gated_delta_sm90", "gated_delta_wide_chunks", wideStages)
	find(&w.first, "gated_delta_sm90", "gated_delta_wide_first", wideHeads)
	find(&w.both, "gated_delta_sm90", "gated_delta_wide_both", max(wideStages, wideGroups*wideHeads))
	return w, err
}

// launch puts the kernels for the chunks of so many tokens on the stream.
func (w *wideDelta) launch(s *driver.Stream, tokens, seqs int, p *DeltaParams, scratch driver.Ptr) error {
	if w.both != nil && seqs == 1 && tokens >= overlapFrom && w.scans(p) <= w.sms/2 {
		return w.launchBoth(s, tokens, slots(tokens, 1)/firstPart, p, scratch)
	}
	return w.launchTwo(s, tokens, seqs, p, scratch)
}

// launchTwo prepares chunks, and then goes through them.
func (w *wideDelta) launchTwo(s *driver.Stream, tokens, seqs int, p *DeltaParams, scratch driver.Ptr) error {
	if err := w.know(p); err != nil {
		return err
	}
	if w.shape.EachKey {
		c := &kimiWideParams{*w.rows, deltaChunksParams{*p, scratch}}
		_, threads, shared := w.shape.prepared()
		if err := driver.Launch(s, w.prepare, driver.Grid{X: slots(tokens, seqs), Y: int(p.KeyHeads), Threads: threads, Shared: shared}, &c.Chunks); err != nil {
			return err
		}
		return driver.Launch(s, w.chunks, w.grid(seqs, p, kimiWideStages), c)
	}
	c := w.params(tokens, seqs, p, scratch)
	if err := driver.Launch(s, w.prepare, driver.Grid{X: int(c.Slots), Y: int(p.KeyHeads * c.Pairs), Threads: 128, Shared: wideHeads}, c); err != nil {
		return err
	}
	return driver.Launch(s, w.chunks, w.grid(seqs, p, wideStages), c)
}

// launchBoth prepares some chunks of a sequence, and the others on the multiprocessors that going through chunks leaves.
func (w *wideDelta) launchBoth(s *driver.Stream, tokens, first int, p *DeltaParams, scratch driver.Ptr) error {
	if err := w.know(p); err != nil {
		return err
	}
	c := w.params(tokens, 1, p, scratch)
	c.First = int32(first)
	if err := driver.Launch(s, w.first, driver.Grid{X: first, Y: int(p.KeyHeads * c.Pairs), Threads: 128, Shared: wideHeads}, c); err != nil {
		return err
	}
	return driver.Launch(s, w.both, driver.Grid{X: w.sms, Threads: wideGroups * 128, Shared: max(wideStages, wideGroups*wideHeads)}, c)
}

// scans is the blocks that go through the chunks of a sequence, and grid those of all.
func (w *wideDelta) scans(p *DeltaParams) int { return int(p.ValueHeads) * int(p.ValueSize) / columns }

func (w *wideDelta) grid(seqs int, p *DeltaParams, shared int) driver.Grid {
	return driver.Grid{X: int(p.ValueSize) / columns, Y: int(p.ValueHeads), Z: seqs, Threads: wideThreads, Shared: shared}
}

// know makes the tensor map of a layer's rows, which lie at one place in all steps.
func (w *wideDelta) know(p *DeltaParams) error {
	if w.rows != nil {
		return nil
	}
	from, width := p.Q, int(p.Stride)
	if w.shape.EachKey {
		from = p.V
	}
	m, err := w.context.MatrixMap(from, math.MaxInt32, width, 2*width, chunk, columns)
	if err == nil {
		w.rows = &m
	}
	return err
}

func (w *wideDelta) params(tokens, seqs int, p *DeltaParams, scratch driver.Ptr) *wideParams {
	bytes, _, _ := w.shape.prepared()
	return &wideParams{
		Rows: *w.rows, Chunks: deltaChunksParams{*p, scratch}, K: int32(p.K-p.Q) / 2, V: int32(p.V-p.Q) / 2, Pairs: (p.ValueHeads/p.KeyHeads + 1) / 2,
		Slots: int32(slots(tokens, seqs)), Ready: scratch + driver.Ptr(chunkScratch(tokens, seqs, int(p.ValueHeads), bytes)),
	}
}
