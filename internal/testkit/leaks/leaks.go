// Package leaks fails tests behind which goroutines, open files or pages of a cache are left. Every test that has a server calls it
// (leaks_test.go of the module's root); tests only.
package leaks

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

// Check fails a test behind which goroutines of this module or open files are left that were not there at this call. What the test cleans up
// later than this call is waited for.
func Check(t testing.TB) {
	t.Helper()
	warmUp()
	goroutines, files := len(Goroutines()), len(Descriptors())
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		var left, open []string
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if left, open = Goroutines(), Descriptors(); len(left) <= goroutines && len(open) <= files {
				return
			}
			runtime.GC() // closes what only finalizers close
		}
		if len(left) > goroutines {
			t.Errorf("%d goroutines are left, of which %d were there before; the last:\n%s", len(left), goroutines, left[len(left)-1])
		}
		if len(open) > files {
			t.Errorf("%d files are open; %d were before: %s", len(open), files, strings.Join(open, ", "))
		}
	})
}

// Pages fails a test whose model holds pages of the cache when no request is left.
func Pages(t testing.TB, m *ridge.Model) {
	t.Helper()
	s := m.Stats()
	for end := time.Now().Add(patience); s.Running+s.Waiting > 0 && time.Now().Before(end); s = m.Stats() {
		time.Sleep(time.Millisecond)
	}
	if s.Running+s.Waiting > 0 || s.PagesUsed > 0 {
		t.Errorf("at the end %d requests run, %d wait, and %d pages are held", s.Running, s.Waiting, s.PagesUsed)
	}
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

// Goroutines are the stacks of goroutines that this module has started and that run its code, those of tests left out.
func Goroutines() (stacks []string) {
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
		if strings.Contains(stack, "ridge-llm/ridge") && !strings.Contains(stack, "testing.tRunner") && !strings.Contains(stack, "testing.fRunner") && !strings.Contains(stack, "_test.") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// Descriptors are what the open files are; none where the system does not list them.
func Descriptors() (all []string) {
	list, _ := os.ReadDir("/proc/self/fd")
	for _, e := range list {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		all = append(all, to)
	}
	return all
}
