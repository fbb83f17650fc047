package capacity

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
)

// Training is how a model is trained, as far as memory depends on it: mixed precision with Adam, whose states are a copy of
// the parameters and two moments in F32 (Micikevicius et al., arXiv:1710.03740).
type Training struct {
	Zero      int  // what data-parallel devices shard: 0 nothing, 1 optimiser states, 2 gradients too, 3 parameters too (Rajbhandari et al., arXiv:1910.02054)
	Recompute bool // keep only the inputs of layers, and recompute the rest in the backward pass (Chen et al., arXiv:1604.06174)
	Sequences int  // of one micro-batch on a device
	Length    int  // tokens of a sequence
}

// Bytes a parameter takes in mixed precision.
const (
	paramBytes     = 2
	gradBytes      = 2
	optimizerBytes = 12
)

// TrainingMemory is what one device holds while it trains, in bytes: that of the device with the most.
type TrainingMemory struct {
	Parameters  int64 `json:"parameters"`
	Gradients   int64 `json:"gradients"`
	Optimizer   int64 `json:"optimizer"`
	Activations int64 `json:"activations"` // kept from the forward pass for the backward pass
	Logits      int64 `json:"logits"`      // of all tokens with their gradient, in F32
}

// Total is the sum.
func (m TrainingMemory) Total() int64 {
	return m.Parameters + m.Gradients + m.Optimizer + m.Activations + m.Logits
}

// maxMicroBatch is the most tokens of a micro-batch: with them the bytes of the largest models stay within 64 bits.
const maxMicroBatch = 1 << 32

// Check says what is wrong with the settings.
func (t Training) Check() error {
	if t.Zero < 0 || t.Zero > 3 {
		return fmt.Errorf("capacity: there is no ZeRO stage %d; 0 to 3 are possible", t.Zero)
	}
	if t.Sequences < 1 || t.Length < 1 {
		return fmt.Errorf("capacity: a micro-batch of %d sequences of %d tokens; both must be 1 or more", t.Sequences, t.Length)
	}
	if float64(t.Sequences)*float64(t.Length) > maxMicroBatch {
		return fmt.Errorf("capacity: a micro-batch of %d sequences of %d tokens; at most %d tokens in all are possible", t.Sequences, t.Length, int64(maxMicroBatch))
	}
	return nil
}

// TrainingMemoryOf is what a device of the layout holds. g has its activations in the type in which they are kept.
func TrainingMemoryOf(g *graph.Graph, l pass.Layout, t Training) (TrainingMemory, error) {
	var most TrainingMemory
	for s := range l.Pipeline {
		part, err := pass.Partition(g, pass.Options{Layout: l, Rank: pass.Rank{Stage: s}})
		if err != nil {
			return most, fmt.Errorf("capacity: %w", err)
		}
		if m := trainingStage(part, l, t, s == l.Pipeline-1); m.Total() > most.Total() {
			most = m
		}
	}
	return most, nil
}

func trainingStage(g *graph.Graph, l pass.Layout, t Training, last bool) TrainingMemory {
	var params, experts int64
	of := expertWeights(g)
	for _, w := range g.Weights {
		if n := w.Numbers(); of[w] {
			experts += n
		} else {
			params += n
		}
	}
	shared := func(stage int, each int64) int64 { // of so many bytes a parameter
		if t.Zero < stage {
			return each * (params + experts)
		}
		copies, ofExperts := int64(l.Data), int64(l.Data/l.Sources())
		return (each*params+copies-1)/copies + (each*experts+ofExperts-1)/ofExperts
	}
	tokens := int64(t.Sequences) * int64(t.Length)
	m := TrainingMemory{
		Parameters: shared(3, paramBytes), Gradients: shared(2, gradBytes), Optimizer: shared(1, optimizerBytes),
		Activations: tokens * kept(g, t.Recompute),
	}
	if last {
		m.Logits = 2 * tokens * graph.F32.RowBytes(g.Output.Axis.Len())
	}
	return m
}

// kept is how many bytes of activations a token keeps for the backward pass. Without recomputation that is every value that some
// gradient is computed from, once; with it the input of every layer, and one whole layer while it is recomputed.
func kept(g *graph.Graph, recompute bool) int64 {
	byLayer := map[int]int64{}
	var begins, all int64
	seen := map[*graph.Value]bool{}
	begun := map[int]bool{}
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if v.Cache != nil || seen[v] || !needed(n.Op) {
				continue
			}
			seen[v] = true
			bytes := v.RowBytes()
			all += bytes
			byLayer[n.Layer] += bytes
			if n.Layer != graph.NoLayer && !begun[n.Layer] {
				begun[n.Layer] = true
				begins += bytes
			}
		}
	}
	if !recompute {
		return all
	}
	var most int64
	for _, bytes := range byLayer {
		most = max(most, bytes)
	}
	return begins + most
}

// needed tells the ops whose gradient depends on their inputs. Sums, rotations by fixed angles and communication do not.
func needed(op graph.Op) bool {
	switch op.(type) {
	case graph.Add, graph.RoPE, graph.SelectRows, graph.Embed, graph.Angles,
		graph.AllReduce, graph.AllGather, graph.Dispatch, graph.Combine, graph.Send, graph.Recv:
		return false
	}
	return true
}
