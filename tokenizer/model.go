package tokenizer

// A model cuts one word into tokens.
type model interface {
	// appendIDs appends the ids of word, which is never empty, to dst.
	appendIDs(dst []int32, word string, sc *scratch) ([]int32, error)
}

// scratch is the memory models need while they work on a word; every encoder has its own.
type scratch struct {
	merge mergeScratch
	path  []pathNode
	key   []byte
}
