package automaton

import (
	"fmt"

	"github.com/ridge-llm/ridge/engine/grammar/dfa"
)

// Bounds of what following a text may cost.
const (
	maxStacks = 4_000      // simultaneous states of one position
	maxWork   = 10_000_000 // steps of one mask, about 3 ns each: while it is found the tokens of other requests wait
)

// tuning trades time for memory; it changes no result.
type tuning struct {
	inlineWeight int // weight up to which a rule is inlined
	unrollWeight int // weight up to which a repetition is unrolled; above it is a counter
	maxContexts  int // contexts used for one state of a position before tokens are tried on its whole stack
	loopVisits   int // walks over a position before the bytes that loop there are looked for
	warmNodes    int // trie nodes of the tokens that a context leaves open, from which on warm looks a frame deeper
	memory       int // bytes that an Automaton keeps before it forgets and starts over
}

func defaultTuning() tuning {
	return tuning{inlineWeight: 40, unrollWeight: 256, maxContexts: 64, loopVisits: 16, warmNodes: 2000, memory: 64 << 20}
}

func tooManyStates(what string) error {
	return fmt.Errorf("grammar: %.300s needs more than %d states; shorten its repetitions, bounds, enums or nesting", what, dfa.MaxStates)
}
