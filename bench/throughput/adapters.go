package throughput

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// fillSlots puts a random adapter of the largest rank into each slot: a product beside every matrix but the head, which few adapters
// change, in BF16, with memory of its own.
func (r *Runner) fillSlots() error {
	numbers := map[*graph.Weight]graph.LowRank{}
	for _, w := range r.prog.Slots() {
		if w.Slots.Table || w.Tensor == "output.weight" {
			continue
		}
		numbers[w] = graph.LowRank{A: r.random(w.Slots.Rank, w.In.Len()), B: r.random(w.Out.Len(), w.Slots.Rank), Scale: 1}
	}
	for slot := range r.prog.Limits().Adapters {
		err := r.prog.SetAdapter(slot, func(w *graph.Weight) *graph.LowRank {
			l, ok := numbers[w]
			if !ok {
				return nil
			}
			l.A.Data, l.B.Data = slices.Clone(l.A.Data), slices.Clone(l.B.Data)
			return &l
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// random is a matrix of small numbers.
func (r *Runner) random(rows, cols int) quant.Tensor {
	t := quant.Tensor{Format: quant.BF16, Rows: rows, Cols: cols, Data: make([]byte, 2*rows*cols)}
	for i := 0; i < len(t.Data); i += 2 {
		binary.LittleEndian.PutUint16(t.Data[i:], uint16(math.Float32bits(float32(r.rnd.Float64()-0.5)/64)>>16))
	}
	return t
}

// giveAdapters gives the sequences of a step n adapters in turn.
func (r *Runner) giveAdapters(s *graph.Step, n int) {
	for seq := range s.Seqs {
		if n > 0 {
			s.Adapters = append(s.Adapters, graph.StepAdapter{Seq: seq, Slot: seq % n, Rank: r.rank, Bytes: 2})
		}
	}
	slices.SortStableFunc(s.Adapters, func(a, b graph.StepAdapter) int { return a.Slot - b.Slot })
}

// fillAdapters writes the adapters of a step into its batch.
func fillAdapters(b *backend.Batch, s *graph.Step) {
	for _, a := range s.Adapters {
		b.Adapters = append(b.Adapters, backend.SeqAdapter{Seq: int32(a.Seq), Slot: int32(a.Slot), Scale: 1, Rank: int32(a.Rank), Bytes: int32(a.Bytes)})
	}
}
