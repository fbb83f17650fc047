package recurrent

import (
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// SSDParams mirrors SSDParams of ssd.h.
type SSDParams struct {
	Step                               kernels.Step
	X, DT                              driver.Ptr // [T, x∥B∥C], [T, Heads]
	Y                                  driver.Ptr // [T, Heads × HeadSize]
	States                             driver.Ptr // [states][Heads][HeadSize][StateSize] float32
	Decay, Bias, Skip                  driver.Ptr // [Heads] float32
	Heads, HeadSize, Groups, StateSize int32
	MinStep, MaxStep                   float32 // of Δ
	OnlyOnes, _                        int32   // 1: sequences with several new tokens are another kernel's
}

// ssdChunksParams mirrors SSDChunksParams of ssd_chunks.cu.
type ssdChunksParams struct {
	SSD     SSDParams
	Scratch driver.Ptr // [chunks][Heads] of ssdPrepared
}

// What ssd_chunks.cu says, too.
const (
	ssdPrepared      = panel + factors
	ssdPrepareShared = 4*panel + 2*4*chunk*4
	ssdPrepareHeads  = 8
	ssdChunk         = 6*panel + factors // bytes of a chunk in shared memory
)

// SSD is the kernels of graph.SSD for values of one type: token by token, and prompts in chunks.
type SSD struct {
	tokens, prepare, chunks *driver.Kernel
	threads, shared         int // of a block that goes through chunks
}

// SSDScratch is the memory for the chunks of steps of up to so many tokens and sequences, in bytes.
func SSDScratch(tokens, seqs, heads int) int64 { return chunkScratch(tokens, seqs, heads, ssdPrepared) }

// NewSSD finds them; chunked: prompts are Chunked.
func NewSSD(l *kernels.Loader, t graph.Type, stateSize int, chunked bool) (*SSD, error) {
	k, err := &SSD{}, error(nil)
	k.threads, k.shared = scanBlock(l, ssdChunk, false)
	if k.tokens, err = l.Kernel("recurrent/ssd", kernels.Name(sized("ssd", stateSize), t), 0); err != nil || !chunked {
		return k, err
	}
	if k.prepare, err = l.Kernel("recurrent/ssd_chunks", "ssd_prepare", ssdPrepareShared); err != nil {
		return nil, err
	}
	k.chunks, err = l.Kernel("recurrent/ssd_chunks", "ssd_chunks", k.shared)
	return k, err
}

// Launch puts the kernels for a step on the stream; ones: some of its sequences may have one new token. scratch has SSDScratch.
func (k *SSD) Launch(s *driver.Stream, tokens, seqs int, ones bool, p *SSDParams, scratch driver.Ptr) error {
	all := k.chunks == nil || tokens == seqs
	if p.OnlyOnes = 0; !all {
		p.OnlyOnes = 1
	}
	if all || ones {
		g := driver.Grid{X: blocks(int(p.HeadSize), tile), Y: int(p.Heads), Z: seqs, Threads: threads}
		if err := driver.Launch(s, k.tokens, g, p); err != nil || all {
			return err
		}
	}
	c := &ssdChunksParams{*p, scratch}
	prepare := driver.Grid{X: slots(tokens, seqs), Y: int(p.Groups) * blocks(int(p.Heads/p.Groups), ssdPrepareHeads), Threads: 128, Shared: ssdPrepareShared}
	if err := driver.Launch(s, k.prepare, prepare, c); err != nil {
		return err
	}
	return driver.Launch(s, k.chunks, driver.Grid{X: blocks(int(p.HeadSize), columns), Y: int(p.Heads), Z: seqs, Threads: k.threads, Shared: k.shared}, c)
}
