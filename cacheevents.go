package ridge

import "github.com/ridge-llm/ridge/engine/kv"

// CacheEvent is a change of what a model has cached of prompts, in blocks of Stats.PageSize tokens.
type CacheEvent struct {
	Kind   CacheEventKind
	Hash   uint64  // of all tokens up to the block's end, and of its salt: the same in every process
	Before uint64  // of the block before it; 0: it is the first of a prompt
	Salt   uint64  // what only requests of the same tenant, or with the same adapters, share is not 0
	Tokens []int32 // of a stored block, while the call lasts
}

// CacheEventKind is what has happened.
type CacheEventKind int

const (
	BlockStored  CacheEventKind = iota // a block is cached
	BlockRemoved                       // it is no more
	CacheCleared                       // nothing is
)

func cacheEvents(f func(CacheEvent)) func(kv.Event) {
	if f == nil {
		return nil
	}
	return func(e kv.Event) {
		f(CacheEvent{Kind: CacheEventKind(e.Kind), Hash: e.Hash, Before: e.Before, Salt: e.Salt, Tokens: e.Tokens})
	}
}
