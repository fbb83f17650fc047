// Package sampling samples tokens from rows of logits on the device; backend/sampling defines the settings.
package sampling

import (
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/graph"
)

// MaxVocab is the longest row: sums of a bin's weights must fit 32 bits.
const MaxVocab = 1 << 18

// Edit mirrors Edit of params.h.
type Edit struct {
	ID            int32
	Value         float32
	Seen, Counted int32
}

// Row mirrors Row of params.h: a sample's settings without its lists.
type Row struct {
	Slope, TopP, TypicalP, U, MinY  float64
	Row, Greedy, TopK, Future       int32
	Mask                            int32 // first word of its mask in Masks; -1: none
	Edits, NumEdits                 int32 // the first and their number; one free place follows them
	Logprob, Tops                   int32
	Repetition, Frequency, Presence float32
}

// Result mirrors Result of params.h.
type Result struct {
	Token, Failure int32
	Logprob        float32
	Tops           int32
	Top            [sampling.MaxTop]sampling.Logprob
}

// Params mirrors SampleParams of params.h.
type Params struct {
	Logits, Rows, Edits, Masks driver.Ptr
	PrevTokens                 driver.Ptr // [samples of the previous step] int32: the tokens that it sampled
	Tokens                     driver.Ptr // [rows] int32: the sampled tokens, for the next step
	Results                    driver.Ptr // [rows] Result
	Vocab                      int32
	_                          int32
}

const (
	threads = 512
	shared  = 55880 // bytes of block.h's Shared
	perUnit = 64 / math.Ln2
)

func sharedBytes(vocab int) int { return shared + (vocab+31)/32*4 }

// Fits reports whether rows of so many logits of a type can be sampled from.
func Fits(vocab int, t graph.Type) bool { return vocab <= MaxVocab && kernels.Plain(t) }

// Find finds the kernel for rows of so many logits of a type.
func Find(l *kernels.Loader, vocab int, t graph.Type) (*driver.Kernel, error) {
	if !Fits(vocab, t) {
		return nil, fmt.Errorf("cuda: rows of %d %s logits cannot be sampled from; the limit is %d logits, in F32 or BF16", vocab, t, MaxVocab)
	}
	return l.Kernel("sampling/sampling", kernels.Name("sample", t), sharedBytes(vocab))
}

// Launch samples one token for each of so many rows.
func Launch(s *driver.Stream, k *driver.Kernel, rows int, p *Params) error {
	return driver.Launch(s, k, driver.Grid{X: rows, Threads: threads, Shared: sharedBytes(int(p.Vocab))}, p)
}

// rowOf converts a sample for the kernel; mask and edits are the offsets of its lists.
func rowOf(d *sampling.Sample, mask, edits int32) Row {
	r := Row{
		TopP: d.TopP, TypicalP: d.TypicalP, U: d.U, MinY: math.Inf(1),
		Row: int32(d.Row), TopK: int32(min(d.TopK, MaxVocab)), Future: int32(d.Future), Mask: mask,
		Edits: edits, NumEdits: int32(len(d.Edits)), Tops: int32(d.Top),
		Repetition: d.Repetition, Frequency: d.Frequency, Presence: d.Presence,
	}
	if d.Temperature == 0 {
		r.Greedy = 1
	} else {
		r.Slope = perUnit / d.Temperature
	}
	if d.MinP > 0 {
		r.MinY = -math.Log(d.MinP) * perUnit
	}
	if d.Logprob {
		r.Logprob = 1
	}
	return r
}
