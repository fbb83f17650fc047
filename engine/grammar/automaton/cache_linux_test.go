package automaton

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
	"github.com/ridge-llm/ridge/internal/background"
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

// TestCompilingTakesTurns: while steps take all processors, compiling gives its own up every quarter of a millisecond.
func TestCompilingTakesTurns(t *testing.T) {
	background.StepBegins()
	defer background.StepEnds()
	c := NewCache(newByteVocabulary(t), 1<<20)
	var before, after unix.Rusage
	_, _ = c.Get(t.Context(), "", "source", func(m *syntax.Meter) (*syntax.Grammar, error) {
		taken := func(u *unix.Rusage) time.Duration {
			if err := unix.Getrusage(unix.RUSAGE_THREAD, u); err != nil {
				t.Error(err)
			}
			return time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
		for began := taken(&before); taken(&after)-began < 10*time.Millisecond; {
			m.Spend(1000) // what a hundred microseconds are taken for
		}
		return nil, errors.New("not a grammar")
	})
	if gave := after.Nvcsw - before.Nvcsw; gave < 10 {
		t.Errorf("in 10 ms of work the thread gave its processor up %d times", gave)
	}
}
