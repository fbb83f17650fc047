package simulate

import (
	"fmt"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/graph"
)

// Adapters are those that the requests of a trace have in turn. How many of them can be in slots at once is the Limits' business.
type Adapters struct {
	Count int // 0: requests have none
	Rank  int // of each
}

// numberBytes is what a number of an adapter takes, as most files have them.
const numberBytes = 2

// of is the adapter of request i.
func (a Adapters) of(i int) []engine.AdapterUse {
	if a.Count == 0 {
		return nil
	}
	return []engine.AdapterUse{standIn(uint64(1+i%a.Count), 1, engine.AdapterNumbers{Rank: a.Rank, Bytes: numberBytes}, func() bool { return true })}
}

// standIn is an adapter without numbers: there says when the engine may take it for loaded.
func standIn(id uint64, scale float32, n engine.AdapterNumbers, there func() bool) engine.AdapterUse {
	n.Of = func(*graph.Weight) *graph.LowRank { return nil }
	return engine.AdapterUse{Scale: scale, Adapter: &engine.Adapter{
		ID: id, Name: fmt.Sprintf("%d", id), Fetch: func(func()) {},
		Loaded: func() (engine.AdapterNumbers, bool, error) { return n, there(), nil },
	}}
}

// uses are stand-ins for a recorded request's adapters.
func (q *recorded) uses(there func() bool) []engine.AdapterUse {
	var uses []engine.AdapterUse
	for i, a := range q.Adapters {
		var n engine.AdapterNumbers
		if q.adapted != nil {
			part := q.adapted.Adapters[i]
			n = engine.AdapterNumbers{Rank: part.Rank, Bytes: part.Bytes, Invocation: q.invocation(part.From)}
		}
		uses = append(uses, standIn(a.ID, a.Scale, n, there))
	}
	return uses
}

// invocation is tokens by which an engine finds an adapter to act from a position of the prompt on: the rest of it.
func (q *recorded) invocation(from int) []int32 {
	switch {
	case from == 0:
		return nil
	case from >= len(q.Prompt):
		return []int32{-1} // which no prompt has
	}
	return q.Prompt[from:]
}
