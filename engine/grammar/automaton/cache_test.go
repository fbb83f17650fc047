package automaton

import (
	std "context"
	"errors"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/ridge-llm/ridge/engine/grammar/regex"
	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// TestCache: a source is read once however many ask at the same time, errors are kept too, and what was asked for last
// stays when there is too much.
func TestCache(t *testing.T) {
	reads := map[string]*atomic.Int32{"a": {}, "b": {}, "c": {}}
	c := NewCache(newByteVocabulary(t), 0)
	get := func(source string) *Automaton {
		a, err := c.Get(t.Context(), "", source, func(*syntax.Meter) (*syntax.Grammar, error) {
			reads[source].Add(1)
			return regex.Parse(source + "+")
		})
		if err != nil {
			t.Error(err)
		}
		return a
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { get("a") })
	}
	all.Wait()
	if n := reads["a"].Load(); n != 1 {
		t.Errorf("20 requests at the same time read their source %d times", n)
	}
	size := get("a").Bytes()
	get("b") // there is room for one
	get("a")
	c.limit = 5 * size / 2 // and now for two
	get("b")
	get("a")
	get("c") // instead of b
	get("a")
	get("b")
	if a, b, c := reads["a"].Load(), reads["b"].Load(), reads["c"].Load(); a != 2 || b != 3 || c != 1 {
		t.Errorf("a was read %d times, b %d, c %d; it should be 2, 3 and 1", a, b, c)
	}
	broken := errors.New("broken")
	n := 0
	c.limit = 1 << 20
	for range 2 {
		if _, err := c.Get(t.Context(), "", "d", func(*syntax.Meter) (*syntax.Grammar, error) { n++; return nil, broken }); !errors.Is(err, broken) || n != 1 {
			t.Errorf("a source that cannot be read gives %v after %d readings", err, n)
		}
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = c.Get(t.Context(), "", "e", func(*syntax.Meter) (*syntax.Grammar, error) { panic("reading") })
	}()
	if _, err := c.Get(t.Context(), "", "e", func(*syntax.Meter) (*syntax.Grammar, error) { return regex.Parse("e") }); err != nil {
		t.Errorf("after a panic: %v", err)
	}
}

// endless is a grammar that takes as long as the meter lets it.
func endless(begun chan<- struct{}) func(*syntax.Meter) (*syntax.Grammar, error) {
	return func(m *syntax.Meter) (*syntax.Grammar, error) {
		close(begun)
		for m.Spend(1) {
		}
		return nil, errors.New("it was given up")
	}
}

// TestCompilingStops: compiling ends when the calls that wait for it have gone, and when it has taken what it may.
func TestCompilingStops(t *testing.T) {
	c := NewCache(newByteVocabulary(t), 1<<20)
	c.queue, c.work = newQueue(1), math.MaxInt
	ctx, leave := std.WithCancel(t.Context())
	begun, ended := make(chan struct{}), make(chan error)
	read := endless(begun)
	for range 2 {
		go func() {
			_, err := c.Get(ctx, "", "a", read)
			ended <- err
		}()
	}
	<-begun
	for wanted := 0; wanted < 2; runtime.Gosched() { // both wait
		c.mu.Lock()
		wanted = c.recent.Front().Value.(*cached).wanted
		c.mu.Unlock()
	}
	leave()
	for range 2 {
		if err := <-ended; !errors.Is(err, std.Canceled) {
			t.Errorf("a call whose client has left ends with %v", err)
		}
	}
	// The one slot comes back only when compiling has ended.
	if _, err := c.Get(t.Context(), "", "a", func(*syntax.Meter) (*syntax.Grammar, error) { return regex.Parse("a") }); err != nil {
		t.Errorf("the source that was given up: %v", err)
	}
	c.work = 1000
	read = endless(make(chan struct{})) // which panics when it is read again
	for range 2 {
		_, err := c.Get(t.Context(), "", "b", read)
		if err == nil || !strings.Contains(err.Error(), "takes too long") {
			t.Errorf("a grammar without end: %v", err)
		}
	}
}

// TestBusy: an owner that has too many grammars waiting is told so, and another is not.
func TestBusy(t *testing.T) {
	c := NewCache(newByteVocabulary(t), 1<<20)
	c.queue = newQueue(1)
	synctest.Test(t, func(t *testing.T) {
		if err := c.queue.Acquire(t.Context(), "hostile"); err != nil {
			t.Fatal(err)
		}
		read := func(*syntax.Meter) (*syntax.Grammar, error) { return regex.Parse("[a-z]+") }
		var waiting sync.WaitGroup
		ctx, stop := std.WithCancel(t.Context())
		for i := range maxWaiting {
			waiting.Go(func() { _, _ = c.Get(ctx, "hostile", strconv.Itoa(i), read) })
		}
		synctest.Wait()
		var busy *BusyError
		if _, err := c.Get(ctx, "hostile", "one more", read); !errors.As(err, &busy) || busy.Waiting != maxWaiting {
			t.Errorf("one more: %v", err)
		}
		waiting.Go(func() {
			if _, err := c.Get(ctx, "other", "x", read); !errors.Is(err, std.Canceled) {
				t.Errorf("another owner's: %v", err)
			}
		})
		synctest.Wait()
		stop()
		waiting.Wait()
	})
}

// TestLongCompilationGivesWay: beside grammars that would be compiled for ever, another's is compiled.
func TestLongCompilationGivesWay(t *testing.T) {
	c := NewCache(newByteVocabulary(t), 1<<20)
	c.queue, c.work = newQueue(1), math.MaxInt
	ctx, stop := std.WithCancel(t.Context())
	var hostile sync.WaitGroup
	for i := range 8 {
		begun := make(chan struct{})
		hostile.Go(func() {
			if _, err := c.Get(ctx, "hostile", strconv.Itoa(i), endless(begun)); !errors.Is(err, std.Canceled) {
				t.Errorf("a long compilation: %v", err)
			}
		})
		<-begun // it has a slot, which those before gave up
	}
	for _, owner := range []string{"other", "hostile"} {
		if _, err := c.Get(ctx, owner, "x", func(*syntax.Meter) (*syntax.Grammar, error) { return regex.Parse("[a-z]+") }); err != nil {
			t.Error(err)
		}
	}
	stop()
	hostile.Wait()
}

// TestHostileGrammars: sources that would take long are refused within the bound of the work, whatever they were made of.
func TestHostileGrammars(t *testing.T) {
	v := newByteVocabulary(t)
	for name, pattern := range map[string]string{
		"subsets": "(" + strings.Repeat("(a|b)*a(a|b){14}|", 40) + "c)",
		"nested":  strings.Repeat("((((a|b)*c){1,3}|d){1,5}e?){1,4}", 50),
		"choices": "(" + strings.Repeat("[a-z]*x[a-z]{9}|", 200) + "y)",
	} {
		const work = 200_000 // a hundredth of what a server gives
		g, err := regex.Parse(pattern)
		if err == nil {
			_, err = compile(g, v, defaultTuning(), syntax.NewMeter(work, nil))
		}
		if err == nil || !strings.Contains(err.Error(), "takes too long") && !strings.Contains(err.Error(), "states") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
