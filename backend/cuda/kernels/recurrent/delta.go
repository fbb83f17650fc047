package recurrent

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// DeltaParams mirrors DeltaParams of gated_delta.h.
type DeltaParams struct {
	Step                                             kernels.Step
	Q, K, V                                          driver.Ptr // [T, KeyHeads × KeySize], likewise, [T, ValueHeads × ValueSize]: parts of rows, Stride numbers apart
	Alpha, Beta                                      driver.Ptr // [T, ValueHeads], of KimiDelta [T, ValueHeads × KeySize]; [T, ValueHeads]
	Y                                                driver.Ptr // [T, ValueHeads × ValueSize]
	States                                           driver.Ptr // [states][ValueHeads][KeySize][ValueSize] float32
	Decay, Bias                                      driver.Ptr // [ValueHeads] float32; [ValueHeads], of KimiDelta [ValueHeads × KeySize] float32
	KeyHeads, KeySize, ValueHeads, ValueSize, Stride int32
	Scale                                            float32 // of queries
	Tiled                                            int32   // 1: value head h is one of key head h mod KeyHeads
	_                                                int32
}

// deltaChunksParams mirrors DeltaChunksParams of gated_delta_chunks.h.
type deltaChunksParams struct {
	Delta   DeltaParams
	Scratch driver.Ptr // [chunks][ValueHeads] of what is prepared
}

// DeltaShape is a layer: GatedDelta's, or KimiDelta's, where each number of a key has a decay.
type DeltaShape struct {
	KeySize, ValueSize int
	EachKey            bool
}

// prepared is what is prepared of a chunk and head, in bytes, and the threads and bytes of shared memory of the blocks that do so.
func (s DeltaShape) prepared() (bytes, threads, shared int) {
	if s.EachKey {
		return 8*panel + factors, 256, 6*panel + chunk*(chunk+4)*4 + (16+5+10)*maxChunk*4 + 4*chunk + 4*4
	}
	return 2*panel + factors, 128, 2*chunk*(chunk+4)*4 + 6*4*chunk
}

// Delta is the kernels of a layer for values of one type: for one token of each sequence, for the others in chunks, and for any token by token.
type Delta struct {
	step, prepare, chunks, tokens *driver.Kernel
	wide                          *wideDelta // for keys of 128 numbers on Hopper, instead of prepare and chunks
	shape                         DeltaShape
	chunkThreads, chunkShared     int // of a block that goes through chunks
}

// DeltaScratch is the memory for the chunks of steps of up to so many tokens and sequences, in bytes.
func DeltaScratch(tokens, seqs, valueHeads int, s DeltaShape) int64 {
	bytes, _, _ := s.prepared()
	return chunkScratch(tokens, seqs, valueHeads, bytes+4) // and whether it is prepared
}

// NewDelta finds them; chunked: prompts are Chunked.
func NewDelta(l *kernels.Loader, t graph.Type, s DeltaShape, chunked bool) (*Delta, error) {
	return newDelta(l, t, s, chunked, l.Hopper() && s.KeySize == maxChunk && s.ValueSize%columns == 0)
}

func newDelta(l *kernels.Loader, t graph.Type, s DeltaShape, chunked, wide bool) (d *Delta, err error) {
	d = &Delta{shape: s}
	d.chunkThreads, d.chunkShared = s.scanBlock(l)
	find := func(to **driver.Kernel, module, name string, shared int) {
		if err == nil {
			*to, err = l.Kernel("recurrent/"+module, name, shared)
		}
	}
	rule := "gated_delta"
	if s.EachKey {
		rule = "kimi_delta"
	}
	if s.ValueSize%4 == 0 { // 16 bytes of a state
		find(&d.step, "gated_delta_step", kernels.Name(sized(rule+"_step", s.KeySize), t), 0)
	}
	switch {
	case !chunked:
		find(&d.tokens, "gated_delta", kernels.Name(sized(rule, s.KeySize), t), 0)
	case wide && err == nil:
		d.wide, err = newWideDelta(l, s)
	default:
		_, _, shared := s.prepared()
		find(&d.prepare, rule+"_chunks", rule+"_prepare", shared)
		find(&d.chunks, rule+"_chunks", rule+"_chunks", d.chunkShared)
	}
	return d, err
}

// scanBlock is the threads and bytes of shared memory of a block that goes through chunks.
func (s DeltaShape) scanBlock(l *kernels.Loader) (threads, shared int) {
	bytes, _, _ := s.prepared()
	if s.EachKey {
		return scanBlock(l, bytes+panel, true) // values
	}
	threads, shared = scanBlock(l, bytes+5*panel, true) // queries and keys, too, which are prepared for KimiDelta
	if l.Hopper() {
		shared += 2 * panel // a state, which KimiDelta has where keys were
	}
	return threads, shared
}

// Launch puts the kernels for a step on the stream; ones: some of its sequences may have one new token. scratch has DeltaScratch.
func (d *Delta) Launch(s *driver.Stream, tokens, seqs int, ones bool, p *DeltaParams, scratch driver.Ptr) error {
	if all := tokens == seqs; d.step != nil && (all || ones && d.tokens == nil) {
		if err := d.launchStep(s, seqs, p); err != nil || all {
			return err
		}
	}
	switch {
	case d.tokens != nil:
		return driver.Launch(s, d.tokens, driver.Grid{X: blocks(int(p.ValueSize), tile), Y: int(p.ValueHeads), Z: seqs, Threads: threads}, p)
	case d.wide != nil:
		return d.wide.launch(s, tokens, seqs, p, scratch)
	}
	return d.launchChunks(s, tokens, seqs, p, scratch)
}

// launchChunks prepares chunks, and then goes through them.
func (d *Delta) launchChunks(s *driver.Stream, tokens, seqs int, p *DeltaParams, scratch driver.Ptr) error {
	c, heads := &deltaChunksParams{*p, scratch}, int(p.KeyHeads) // whose value heads a block prepares together
	_, threads, shared := d.shape.prepared()
	if err := driver.Launch(s, d.prepare, driver.Grid{X: slots(tokens, seqs), Y: heads, Threads: threads, Shared: shared}, c); err != nil {
		return err
	}
	return driver.Launch(s, d.chunks, driver.Grid{X: blocks(int(p.ValueSize), columns), Y: int(p.ValueHeads), Z: seqs, Threads: d.chunkThreads, Shared: d.chunkShared}, c)
}

// launchStep is the launch for sequences with one new token.
func (d *Delta) launchStep(s *driver.Stream, seqs int, p *DeltaParams) error {
	return driver.Launch(s, d.step, driver.Grid{X: blocks(int(p.ValueSize), tile), Y: int(p.ValueHeads), Z: seqs, Threads: 256}, p)
}
