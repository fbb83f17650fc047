package throughput

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// FillSlots puts a random adapter of the largest rank into each slot of a program: a product beside every matrix but the head, which few adapters
// change, in BF16, with memory of its own.
func FillSlots(prog compile.Runner, rnd *rand.Rand) error {
	numbers := map[*graph.Weight]graph.LowRank{}
	for _, w := range prog.Slots() {
		if w.Slots.Table || w.Tensor == "output.weight" {
			continue
		}
		numbers[w] = graph.LowRank{A: random(rnd, w.Slots.Rank, w.In.Len()), B: random(rnd, w.Out.Len(), w.Slots.Rank), Scale: 1}
	}
	for slot := range prog.Limits().Adapters {
		err := prog.SetAdapter(slot, func(w *graph.Weight) *graph.LowRank {
			l, ok := numbers[w]
			if !ok {
				return nil
			}
			l.A.Data, l.B.Data = slices.Clone(l.A.Data), slices.Clone(l.B.Data)
			return &l
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// random is a matrix of small numbers.
func random(rnd *rand.Rand, rows, cols int) quant.Tensor {
	t := quant.Tensor{Format: quant.BF16, Rows: rows, Cols: cols, Data: make([]byte, 2*rows*cols)}
	for i := 0; i < len(t.Data); i += 2 {
		binary.LittleEndian.PutUint16(t.Data[i:], uint16(math.Float32bits(float32(rnd.Float64()-0.5)/64)>>16))
	}
	return t
}

// GiveAdapters gives the sequences of a step n adapters of FillSlots, those of one adapter one behind the other as the engine has them.
func GiveAdapters(s *graph.Step, n, rank int) {
	for seq := range s.Seqs {
		if n > 0 {
			s.Adapters = append(s.Adapters, graph.StepAdapter{Seq: seq, Slot: seq * min(n, len(s.Seqs)) / len(s.Seqs), Rank: rank, Bytes: 2})
		}
	}
}

// fillAdapters writes the adapters of a step into its batch.
func fillAdapters(b *backend.Batch, s *graph.Step) {
	for _, a := range s.Adapters {
		b.Adapters = append(b.Adapters, backend.SeqAdapter{Seq: int32(a.Seq), Slot: int32(a.Slot), Scale: 1, Rank: int32(a.Rank), Bytes: int32(a.Bytes)})
	}
}
