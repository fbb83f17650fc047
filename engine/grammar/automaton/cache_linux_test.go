package automaton

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// TestCompilingGivesWay: grammars are compiled by threads of a lower priority than those of the engine.
func TestCompilingGivesWay(t *testing.T) {
	own, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid()) // 20 less the niceness
	if err != nil {
		t.Fatal(err)
	}
	if own == 1 {
		t.Skip("this process has the lowest priority itself")
	}
	c := NewCache(newByteVocabulary(t), 1<<20)
	compiling := own
	_, _ = c.Get(t.Context(), "", "source", func(*syntax.Meter) (*syntax.Grammar, error) {
		compiling, err = unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid())
		return nil, errors.New("not a grammar")
	})
	if err != nil || compiling >= own {
		t.Errorf("the priority is %d (%v), that of other threads %d", compiling, err, own)
	}
}
