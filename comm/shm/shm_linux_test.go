package shm_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/comm"
	"github.com/ridge-llm/ridge/comm/commtest"
	"github.com/ridge-llm/ridge/comm/shm"
)

// open maps memory once for each rank, as processes do.
func open(t testing.TB, ranks int) (all []comm.Communicator) {
	t.Helper()
	procs := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(procs + ranks) // a rank that sleeps in the kernel keeps its processor for a while: ranks are mostly processes
	t.Cleanup(func() { runtime.GOMAXPROCS(procs) })
	m, err := shm.Create(ranks)
	if err != nil {
		t.Fatal(err)
	}
	for i := range ranks {
		r, err := shm.Open(m, i, ranks)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		all = append(all, r)
	}
	if err := shm.Remove(m); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCommunicator: what every transport promises.
func TestCommunicator(t *testing.T) {
	commtest.Run(t, func(t *testing.T, ranks int) []comm.Communicator { return open(t, ranks) })
}

// TestOpen: memory of other ranks, of another size and none are told apart.
func TestOpen(t *testing.T) {
	m, err := shm.Create(2)
	if err != nil {
		t.Fatal(err)
	}
	defer shm.Remove(m)
	other := m
	other.Nonce = strings.Repeat("0", len(m.Nonce))
	gone := m
	gone.Path += "-gone"
	for want, c := range map[string]struct {
		memory      shm.Memory
		rank, ranks int
	}{
		"its nonce differs": {other, 0, 2}, "no such file": {gone, 0, 2}, "3 ranks need": {m, 0, 3}, "rank 2 of 2": {m, 2, 2},
	} {
		if r, err := shm.Open(c.memory, c.rank, c.ranks); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, %v", c, r, err)
		}
	}
	if _, err := shm.Create(65); err == nil {
		t.Error("65 ranks have memory")
	}
	if info, err := os.Stat(m.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may open the memory: %v, %v", info.Mode(), err)
	}
}
