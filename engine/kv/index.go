package kv

// Index remembers which nodes hold which tokens. Its entries form trees: an entry is a node, what it holds, and the
// node before it (none for the first of a text). A sequence that holds a node of the index holds all those before it,
// and lets go of the last first.
type Index interface {
	// Find returns the node that holds tokens after node before, or none (-1). It changes nothing.
	Find(before int32, salt uint64, tokens []int32) int32
	// Insert enters node, which a sequence holds, if Find finds none. It reports whether the index took it.
	Insert(before int32, salt uint64, tokens []int32, node int32) bool
	// Hold says that a node of the index that was idle has a holder again, and Release that it is idle now.
	Hold(node int32)
	Release(node int32)
	// Oldest is an idle node with none after it, the one that was released first. There must be one. Evict removes such a node, whichever it is.
	Oldest() int32
	Evict(node int32)
	// Before is the node before a node, or none, and After reports whether there are nodes after it.
	Before(node int32) int32
	After(node int32) bool
	// Check returns what is wrong with the index, given which nodes it should have and which of them are held.
	Check(indexed []bool, holders []int32) error
}

// None is the index that finds nothing.
func None(_, _ int) Index { return noIndex{} }

type noIndex struct{}

func (noIndex) Find(int32, uint64, []int32) int32         { return none }
func (noIndex) Insert(int32, uint64, []int32, int32) bool { return false }
func (noIndex) Hold(int32)                                {}
func (noIndex) Release(int32)                             {}
func (noIndex) Oldest() int32                             { panic("kv: the empty index was asked for a node") }
func (noIndex) Evict(int32)                               { panic("kv: the empty index was asked for a node") }
func (noIndex) Before(int32) int32                        { return none }
func (noIndex) After(int32) bool                          { return false }
func (noIndex) Check([]bool, []int32) error               { return nil }
