package server_test

import (
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
)

// patience is how long what ends by itself may take to, on a busy machine.
const patience = time.Minute

// noLeaks fails a test behind which goroutines of this module or open files are left that were not there at this call.
func noLeaks(t testing.TB) {
	t.Helper()
	warmUp()
	goroutines, files := len(ours()), openDescriptors()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		var left []string
		now := 0
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if left, now = ours(), openDescriptors(); len(left) <= goroutines && now <= files {
				return
			}
			runtime.GC() // closes what only finalizers close
		}
		if len(left) > goroutines {
			t.Errorf("%d goroutines are left, of which %d were there before; the last:\n%s", len(left), goroutines, left[len(left)-1])
		}
		if now > files {
			t.Errorf("%d files are open; %d were before: %s", now, files, strings.Join(descriptors(), ", "))
		}
	})
}

// warmUp opens what a process keeps open once it has used the network.
var warmUp = sync.OnceFunc(func() {
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
			c.Close()
		}
		l.Close()
	}
})

// ours are the stacks of goroutines that this module has started and that run its code, those of tests left out.
func ours() (stacks []string) {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	for _, stack := range strings.Split(string(buf), "\n\n") {
		if strings.Contains(stack, "ridge-llm/ridge") && !strings.Contains(stack, "testing.tRunner") && !strings.Contains(stack, "server_test.") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// openDescriptors is how many files are open; 0 where the system does not list them.
func openDescriptors() int { return len(descriptors()) }

// descriptors are what the open files are.
func descriptors() (all []string) {
	list, _ := os.ReadDir("/proc/self/fd")
	for _, e := range list {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		all = append(all, to)
	}
	return all
}

// allReturned fails a test whose model holds pages of the cache when no request is left.
func allReturned(t testing.TB, m *ridge.Model) {
	t.Helper()
	s := m.Stats()
	for end := time.Now().Add(patience); s.Running+s.Waiting > 0 && time.Now().Before(end); s = m.Stats() {
		time.Sleep(time.Millisecond)
	}
	if s.Running+s.Waiting > 0 || s.PagesUsed > 0 {
		t.Errorf("at the end %d requests run, %d wait, and %d pages are held", s.Running, s.Waiting, s.PagesUsed)
	}
}

// TestLeaksAreSeen: what is left behind is counted.
func TestLeaksAreSeen(t *testing.T) {
	before, files := len(ours()), openDescriptors()
	m, err := ridge.Load("", ridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if now := len(ours()); now <= before {
		t.Errorf("%d goroutines with a model, %d without", now, before)
	}
	if now := openDescriptors(); files > 0 && now <= files {
		t.Errorf("%d files are open; %d were before another was opened", now, files)
	}
	f.Close()
	m.Close()
}
