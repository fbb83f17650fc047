package automaton

import (
	"cmp"
	"container/list"
	std "context" // the package has a type of that name
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
	"github.com/ridge-llm/ridge/internal/background"
)

// Cache keeps the automata of the sources that were asked for last, so that a schema that comes with every request is
// compiled once, and what was wrong with those that have none. Any number of goroutines may use it.
type Cache struct {
	vocab *Vocabulary
	limit int // bytes of all automata together
	queue *background.Queue
	work  int // units of a syntax.Meter that compiling one grammar may take

	mu     sync.Mutex
	index  map[[sha256.Size]byte]*list.Element // of *cached
	recent list.List                           // the last asked for first
}

// cached is one source's automaton or what is wrong with it, or a compilation under way.
type cached struct {
	key      [sha256.Size]byte
	ready    chan struct{} // closed when what follows is set
	a        *Automaton
	err      error
	panicked any

	wanted int // calls that wait for it; c.mu is held
	cancel std.CancelFunc
}

// errorBytes is about how much memory an entry without an automaton takes.
const errorBytes = 4 << 10

func (o *cached) bytes() int {
	if o.a == nil {
		return errorBytes
	}
	return o.a.Bytes()
}

// NewCache makes a cache that keeps about so many bytes of automata, and one automaton whatever its size.
func NewCache(v *Vocabulary, limit int) *Cache {
	// At most half of the processors compile: the rest is for running requests. GOMAXPROCS may be more than there are (cmd/ridge/processors.go).
	return &Cache{vocab: v, limit: limit, queue: newQueue(max(1, min(runtime.GOMAXPROCS(0), runtime.NumCPU())/2)), work: syntax.MaxMeterWork, index: map[[sha256.Size]byte]*list.Element{}}
}

// BusyError refuses to compile: an owner has too many grammars waiting.
type BusyError struct{ Waiting int }

func (e *BusyError) Error() string {
	return fmt.Sprintf("grammar: %d grammars wait to be compiled, the most there may be; try again", e.Waiting)
}

// pausesPerPlace is in how many of a meter's pauses a compilation gives its place to others: every 5 ms.
const pausesPerPlace = 50

// maxWaiting is how many grammars of one owner may wait to be compiled.
const maxWaiting = 64

func newQueue(n int) *background.Queue { return background.NewQueue(n, maxWaiting) }

// Get returns the automaton of a source, which read makes a grammar of. Concurrent calls for one source share one
// compilation, which ends early when all of them have gone. The source has to tell what read does: the text and all options. Owners do not
// share: the time of a call does not tell what another has had compiled. They have their turns to compile; those of calls without one go by
// background.Owner. What is wrong with a source is kept as well.
func (c *Cache) Get(ctx std.Context, owner, source string, read func(*syntax.Meter) (*syntax.Grammar, error)) (*Automaton, error) {
	key := sha256.Sum256(append(binary.AppendUvarint(nil, uint64(len(owner))), owner+source...))
	c.mu.Lock()
	e, ok := c.index[key]
	if ok {
		c.recent.MoveToFront(e)
	} else {
		one := &cached{key: key, ready: make(chan struct{})}
		var working std.Context
		working, one.cancel = std.WithCancel(std.WithoutCancel(ctx))
		e = c.recent.PushFront(one)
		c.index[key] = e
		go c.fill(working, owner, e, read)
	}
	one := e.Value.(*cached)
	one.wanted++
	c.mu.Unlock()
	select {
	case <-one.ready:
		c.leave(e)
		if one.panicked != nil {
			panic(one.panicked)
		}
		return one.a, one.err
	case <-ctx.Done():
		c.leave(e)
		return nil, ctx.Err()
	}
}

// leave ends a call's wait. A compilation that no call waits for is given up.
func (c *Cache) leave(e *list.Element) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := e.Value.(*cached)
	if one.wanted--; one.wanted == 0 && !isClosed(one.ready) {
		c.drop(e)
		one.cancel()
	}
}

// fill compiles an entry. Errors that are not the source's own are not kept.
func (c *Cache) fill(ctx std.Context, owner string, e *list.Element, read func(*syntax.Meter) (*syntax.Grammar, error)) {
	one := e.Value.(*cached)
	defer func() {
		one.panicked = recover()
		givenUp := ctx.Err() != nil
		one.cancel()
		var busy *BusyError
		if one.panicked != nil || givenUp && one.err != nil || errors.As(one.err, &busy) {
			c.mu.Lock()
			c.drop(e)
			c.mu.Unlock()
		}
		c.settle(one)
	}()
	one.a, one.err = c.compile(ctx, owner, read)
}

// compile makes an automaton and has it work out beforehand what takes long, which would else be for the engine to do.
func (c *Cache) compile(ctx std.Context, owner string, read func(*syntax.Meter) (*syntax.Grammar, error)) (a *Automaton, err error) {
	owner = cmp.Or(owner, background.Owner(ctx))
	err = c.queue.Acquire(ctx, owner)
	if full := (*background.FullError)(nil); errors.As(err, &full) {
		return nil, &BusyError{full.Waiting}
	} else if err != nil {
		return nil, err
	}
	held := true
	defer func() {
		if held {
			c.queue.Release()
		}
	}()
	var meter *syntax.Meter
	background.Run(func(turns *background.Turns) {
		pauses := 0
		meter = syntax.NewMeter(c.work, func() (err error) {
			turns.Pause()
			if pauses++; pauses%pausesPerPlace == 0 {
				held, err = c.queue.Yield(ctx, owner)
			}
			return err
		})
		a, err = c.prepare(read, meter)
	})
	if meter.Err() != nil {
		return nil, meter.Err() // whatever became of it then
	}
	return a, err
}

// prepare reads and compiles a grammar, and makes its automaton ready.
func (c *Cache) prepare(read func(*syntax.Meter) (*syntax.Grammar, error), meter *syntax.Meter) (*Automaton, error) {
	g, err := read(meter)
	if err != nil {
		return nil, err
	}
	a, err := compile(g, c.vocab, defaultTuning(), meter)
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
	a.mu.Lock()
	a.meter = nil
	a.mu.Unlock()
	return a, nil
}

// settle has the calls that wait for an entry go on, and forgets the automata that have not been asked for longest, until the rest fits. Requests that use them go on.
func (c *Cache) settle(newest *cached) {
	c.mu.Lock() // those calls take it too, and so the cache is as they expect it when they return
	defer c.mu.Unlock()
	close(newest.ready)
	total := 0
	for e := c.recent.Front(); e != nil; {
		one, next := e.Value.(*cached), e.Next()
		if isClosed(one.ready) {
			total += one.bytes()
			if total > c.limit && one != newest {
				c.drop(e)
			}
		}
		e = next
	}
}

// drop takes an entry out. c.mu is held.
func (c *Cache) drop(e *list.Element) {
	if key := e.Value.(*cached).key; c.index[key] == e { // else it was dropped before
		c.recent.Remove(e)
		delete(c.index, key)
	}
}

func isClosed(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
