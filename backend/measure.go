package backend

import (
	"time"

	"github.com/ridge-llm/ridge/graph"
)

// Peaks is what a device can do at most, with all the threads it was opened with, measured when asked for. A rate of 0
// is not known.
type Peaks struct {
	Int8 float64 // FLOP/s of products of int8 (a multiply-add is two)
	FP8  float64 // of e4m3
	BF16 float64 // of bf16
	F32  float64 // of float32
	Read float64 // bytes/s from memory
}

// Measurer is a device that can say how fast it is.
type Measurer interface {
	// Peaks measures for about a second.
	Peaks() (Peaks, error)
	// RunTimed is Run, and notes how long each launch took.
	RunTimed(launches []Launch, b *Batch, took []time.Duration) error
}

// Floor is the least time a node can take in a step of this size: its arithmetic at the peak of the numbers it
// multiplies, or the weights and cache rows it must read at the memory's, whichever is longer. Activations are taken to
// stay in caches.
func (p Peaks) Floor(n *graph.Node, s *graph.Step) time.Duration {
	var seconds float64
	for _, part := range graph.Parts(n) {
		if rate := p.rate(part); rate > 0 {
			seconds += float64(part.Op.Work(part, s).FLOPs) / rate
		}
	}
	if w := n.Op.Work(n, s); p.Read > 0 {
		seconds = max(seconds, float64(w.WeightBytes+w.CacheRead+w.CacheWrite)/p.Read)
	}
	return time.Duration(seconds * 1e9)
}

// rate is the peak of the numbers that an operation multiplies; 0 if it is not known.
func (p Peaks) rate(n *graph.Node) float64 {
	round := graph.F32
	switch o := n.Op.(type) {
	case graph.Linear:
		round = o.ActType
	case graph.MoE:
		round = o.ManyType()
	case graph.Attention:
	default:
		return p.F32
	}
	in := n.In[0].Type
	if in == graph.F32 {
		in = round
	}
	switch in {
	case graph.Q8, graph.I8:
		return p.Int8
	case graph.F8:
		return p.FP8
	case graph.BF16:
		return max(p.BF16, p.F32)
	}
	return p.F32
}
