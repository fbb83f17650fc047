package tokenizer

import (
	"hash/maphash"
	"sync/atomic"
)

// wordCache remembers the ids of recent words. It is a table of fixed size in which a word has two places, side by side,
// and a newcomer takes one of them, so it is bounded (65,536 words of at most 64 bytes: about 10 MB when full) and needs
// no lock: an entry never changes once it is stored.
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

// find returns the ids of word, or else the place where they should go.
func (c *wordCache) find(word string) (ids []int32, place *atomic.Pointer[cachedWord]) {
	hash := maphash.String(c.seed, word)
	p := &c.slots[hash%cacheSlots]
	a := p.Load()
	if a != nil && a.word == word {
		return a.ids, nil
	}
	q := &c.slots[hash%cacheSlots^1]
	b := q.Load()
	if b != nil && b.word == word {
		return b.ids, nil
	}
	if a == nil || b != nil && hash>>63 == 0 {
		return nil, p
	}
	return nil, q
}

// store copies word and ids to a place.
func store(place *atomic.Pointer[cachedWord], word string, ids []int32) {
	e := &struct {
		cachedWord
		inline [4]int32 // most words need no more, and so one allocation less
	}{}
	e.word = string([]byte(word)) // word may be a slice of a whole prompt, which must not stay alive
	e.ids = append(e.inline[:0], ids...)
	place.Store(&e.cachedWord)
}
