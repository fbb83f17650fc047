package automaton

import (
	"container/list"
	"crypto/sha256"
	"errors"
	"runtime"
	"sync"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// Cache keeps the automata of the sources that were asked for last, so that a schema that comes with every request is
// compiled once. Any number of goroutines may use it.
type Cache struct {
	vocab *Vocabulary
	limit int           // bytes of all automata together
	slots chan struct{} // one for every compilation under way

	mu     sync.Mutex
	index  map[[sha256.Size]byte]*list.Element // of *cached
	recent list.List                           // the last asked for first
}

// cached is one source's automaton, or a compilation under way.
type cached struct {
	key   [sha256.Size]byte
	ready chan struct{} // closed when the rest is set
	a     *Automaton
	err   error
}

// NewCache makes a cache that keeps about so many bytes of automata, and one automaton whatever its size.
func NewCache(v *Vocabulary, limit int) *Cache {
	// At most half of the processors compile: the rest is for running requests.
	return &Cache{vocab: v, limit: limit, slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), index: map[[sha256.Size]byte]*list.Element{}}
}

// Get returns the automaton of a source, which read makes a grammar of. Concurrent calls for one source share one
// compilation. The source has to tell what read does: the text and all options. Errors are not kept.
func (c *Cache) Get(source string, read func() (*syntax.Grammar, error)) (*Automaton, error) {
	key := sha256.Sum256([]byte(source))
	c.mu.Lock()
	if e, ok := c.index[key]; ok {
		c.recent.MoveToFront(e)
		c.mu.Unlock()
		found := e.Value.(*cached)
		<-found.ready
		return found.a, found.err
	}
	one := &cached{key: key, ready: make(chan struct{})}
	e := c.recent.PushFront(one)
	c.index[key] = e
	c.mu.Unlock()

	one.err = errPanicked // unless compile returns
	defer func() {
		if one.err != nil {
			c.mu.Lock()
			c.drop(e)
			c.mu.Unlock()
		}
		close(one.ready)
	}()
	if one.a, one.err = c.compile(read); one.err == nil {
		c.evict(one)
	}
	return one.a, one.err
}

var errPanicked = errors.New("grammar: compiling it failed")

// compile makes an automaton and has it work out beforehand what takes long, which would else be for the engine to do.
func (c *Cache) compile(read func() (*syntax.Grammar, error)) (*Automaton, error) {
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	g, err := read()
	if err != nil {
		return nil, err
	}
	a, err := Compile(g, c.vocab)
	if err != nil {
		return nil, err
	}
	m, err := a.Start()
	if err != nil {
		return nil, err
	}
	if err := m.Mask(make([]uint32, c.vocab.MaskWords())); err != nil {
		return nil, err
	}
	a.warm()
	return a, nil
}

// evict forgets the automata that have not been asked for longest, until the rest fits. Requests that use them go on.
func (c *Cache) evict(newest *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := 0
	for e := c.recent.Front(); e != nil; {
		one, next := e.Value.(*cached), e.Next()
		if one == newest || isClosed(one.ready) {
			total += one.a.Bytes()
			if total > c.limit && one != newest {
				c.drop(e)
			}
		}
		e = next
	}
}

// drop takes an entry out. c.mu is held.
func (c *Cache) drop(e *list.Element) {
	c.recent.Remove(e)
	delete(c.index, e.Value.(*cached).key)
}

func isClosed(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
