package tokenizer

import (
	"hash/maphash"
	"sync/atomic"
)

// wordCache remembers the ids of recent words. It is a table of fixed size in which a word has one place and a newcomer
// takes it, so it is bounded (65,536 words of at most 64 bytes: about 10 MB when full) and needs no lock: an entry never
// changes once it is stored.
type wordCache struct {
	seed  maphash.Seed
	slots [cacheSlots]atomic.Pointer[cachedWord]
}

const (
	cacheSlots    = 1 << 16
	maxCachedWord = 64 // bytes
)

type cachedWord struct {
	word string
	ids  []int32
}

func newWordCache() *wordCache { return &wordCache{seed: maphash.MakeSeed()} }

// slot returns the place of word, and the ids that are there when they are word's.
func (c *wordCache) slot(word string) (*atomic.Pointer[cachedWord], []int32, bool) {
	p := &c.slots[maphash.String(c.seed, word)%cacheSlots]
	if e := p.Load(); e != nil && e.word == word {
		return p, e.ids, true
	}
	return p, nil, false
}

// store copies word and ids into a slot.
func store(p *atomic.Pointer[cachedWord], word string, ids []int32) {
	e := &struct {
		cachedWord
		inline [4]int32 // most words need no more, and so one allocation less
	}{}
	e.word = string([]byte(word)) // word may be a slice of a whole prompt, which must not stay alive
	e.ids = append(e.inline[:0], ids...)
	p.Store(&e.cachedWord)
}
