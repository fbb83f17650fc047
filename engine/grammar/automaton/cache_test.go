package automaton

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ridge-llm/ridge/engine/grammar/regex"
	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// TestCache: a source is read once however many ask at the same time, errors are not kept, and what was asked for last
// stays when there is too much.
func TestCache(t *testing.T) {
	reads := map[string]*atomic.Int32{"a": {}, "b": {}, "c": {}}
	c := NewCache(newByteVocabulary(t), 0)
	get := func(source string) *Automaton {
		a, err := c.Get(source, func() (*syntax.Grammar, error) {
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
	for range 2 {
		n := 0
		if _, err := c.Get("d", func() (*syntax.Grammar, error) { n++; return nil, broken }); !errors.Is(err, broken) || n != 1 {
			t.Errorf("a source that cannot be read gives %v after %d readings", err, n)
		}
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = c.Get("e", func() (*syntax.Grammar, error) { panic("reading") })
	}()
	if _, err := c.Get("e", func() (*syntax.Grammar, error) { return regex.Parse("e") }); err != nil {
		t.Errorf("after a panic: %v", err)
	}
}
