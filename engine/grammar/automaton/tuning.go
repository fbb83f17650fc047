package automaton

import (
	"fmt"

	"github.com/ridge-llm/ridge/engine/grammar/dfa"
)

// Bounds of what following a text may cost.
const (
	maxStacks = 4_000       // simultaneous states of one position
	maxWork   = 100_000_000 // steps of one mask, a few nanoseconds each
)

// tuning trades time for memory; it changes no result.
type tuning struct {
	light    int // weight up to which a rule is put in the place of its calls
	unrolled int // weight up to which a repetition is, instead of being counted
	contexts int // contexts used for one state of a position before its stack is looked at as it is
	visits   int // by walks, until it is worth finding out what leads from a position to itself
	much     int // nodes of tokens that depend on what lies below a context, for it to be looked at beforehand
	memory   int // bytes an Automaton keeps before it forgets and starts over
}

func usual() tuning {
	return tuning{light: 40, unrolled: 256, contexts: 64, visits: 16, much: 2000, memory: 64 << 20}
}

func tooManyStates(what string) error {
	return fmt.Errorf("grammar: %.300s needs more than %d states; shorten its repetitions, bounds, enums or nesting", what, dfa.MaxStates)
}
