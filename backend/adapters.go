package backend

import (
	"fmt"
	"sort"

	"github.com/ridge-llm/ridge/graph"
)

// SeqAdapter is an adapter of one sequence of a batch: the slot that it is in, and what its changes are multiplied by, mostly 1.
type SeqAdapter struct {
	Seq, Slot int32
	Skip      int32 // rows of the sequence, its first in the step, that the adapter leaves alone
	Nth       int32 // its number among those of the sequence, whose changes are added in this order
	Scale     float32
	Rank      int32 // its largest, for pricing and for kernels that go through the ranks in passes
	Bytes     int32 // of one of its numbers, likewise
}

// MaxSeqAdapters is how many adapters a sequence may have.
const MaxSeqAdapters = 4

// AdapterLoader is a device whose weights with slots (graph.Slots) can be filled while a program lives.
type AdapterLoader interface {
	// SetAdapter begins to fill a slot of a weight that Place made, or to empty it with nil. It is called between steps; the tensors of l are borrowed
	// until the slot is filled again. A device with memory of its own has kept room for adapters of the largest rank since it was bound. Steps that
	// do not use the slot go on meanwhile; one that does waits until it is filled.
	SetAdapter(w Weight, slot int, l *graph.LowRank) error
	// AdaptersSet calls done, at once or in another goroutine, when what SetAdapter was given before is where steps read it, or with why it is not.
	AdaptersSet(done func(error))
}

// AdapterPacker is an AdapterLoader that can do most of SetAdapter ahead, in any goroutine beside steps.
type AdapterPacker interface {
	// PackAdapter sets l.Packed to what SetAdapter makes of l for the weight, and may take numbers of l away that this has in their place.
	PackAdapter(w Weight, l *graph.LowRank) error
}

// AdapterRows is the rows [from, to) of values with these rows that belong to the sequence of an adapter.
func (b *Batch) AdapterRows(a SeqAdapter, rows graph.Rows) (from, to int) {
	first, end := b.QStart[a.Seq]+a.Skip, b.QStart[a.Seq+1]
	if rows != graph.Logits {
		return int(first), int(end)
	}
	at := func(row int32) int {
		return sort.Search(len(b.LogitsIndices), func(i int) bool { return b.LogitsIndices[i] >= row })
	}
	return at(first), at(end)
}

// checkAdapters says what is wrong with the adapters of a batch.
func (b *Batch) checkAdapters(lim Limits) error {
	for i, a := range b.Adapters {
		if a.Seq < 0 || int(a.Seq) >= b.Seqs() || a.Slot < 0 || int(a.Slot) >= lim.Adapters || a.Nth < 0 || a.Nth >= MaxSeqAdapters {
			return fmt.Errorf("backend: sequence %d has the adapter in slot %d; there are %d sequences and %d slots", a.Seq, a.Slot, b.Seqs(), lim.Adapters)
		}
		if a.Skip < 0 || a.Skip >= b.QStart[a.Seq+1]-b.QStart[a.Seq] {
			return fmt.Errorf("backend: an adapter leaves alone %d rows of sequence %d, which has %d", a.Skip, a.Seq, b.QStart[a.Seq+1]-b.QStart[a.Seq])
		}
		if i == 0 {
			continue
		}
		if p := b.Adapters[i-1]; p.Slot > a.Slot || p.Slot == a.Slot && p.Seq >= a.Seq {
			return fmt.Errorf("backend: adapter %d of a batch, sequence %d in slot %d, is out of order", i, a.Seq, a.Slot)
		}
	}
	return nil
}
