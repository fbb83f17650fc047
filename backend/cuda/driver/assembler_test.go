package driver

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// The kernels of these tests have no text, so that no driver is needed.
var errNoText = errors.New("no text")

// request requests a kernel whose text fails with errNoText, after read.
func request(t *testing.T, a *Assembler, name string, read func()) *Kernel {
	t.Helper()
	k, err := a.Kernel("test", name, func() ([]byte, error) {
		read()
		return nil, errNoText
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestAssemblerParallel: kernels whose texts wait for each other all finish, on as many processors.
func TestAssemblerParallel(t *testing.T) {
	const n = 3
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	a := NewAssembler(nil)
	var all sync.WaitGroup
	all.Add(n)
	for i := range n {
		request(t, a, fmt.Sprint(i), func() {
			all.Done()
			all.Wait()
		})
	}
	if err := a.Wait(); err != errNoText {
		t.Errorf("waiting gave %v", err)
	}
}

// TestAssemblerFails: every use of a failed kernel returns its error, and no other kernel is started.
func TestAssemblerFails(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	a, started, fail := NewAssembler(nil), make(chan struct{}), make(chan struct{})
	k := request(t, a, "k", func() {
		close(started)
		<-fail
	})
	<-started
	later := request(t, a, "later", func() { t.Error("a kernel was started after another had failed") })
	close(fail)
	if err := later.wait(); err != errNoText {
		t.Errorf("the kernel after it gave %v", err)
	}
	for range 2 {
		if err := a.Wait(); err != errNoText {
			t.Errorf("waiting gave %v", err)
		}
		if _, err := k.ClustersAtOnce(Grid{}); err != errNoText {
			t.Errorf("its clusters gave %v", err)
		}
		if err := new(Stream).launchBytes(k, Grid{}, nil); err != errNoText {
			t.Errorf("a launch gave %v", err)
		}
		if _, err := a.Kernel("test", "k", nil); err != errNoText {
			t.Errorf("requesting another gave %v", err)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// TestAssemblerClose: it waits for the kernel being assembled and starts no other.
func TestAssemblerClose(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	a, started, closing := NewAssembler(nil), make(chan struct{}), make(chan struct{})
	request(t, a, "k", func() {
		close(started)
		for a.stopped() == nil {
			runtime.Gosched()
		}
		close(closing)
	})
	<-started
	later := request(t, a, "later", func() { t.Error("a kernel was started after Close") })
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-closing:
	default:
		t.Error("Close did not wait for the kernel being assembled")
	}
	if err := later.wait(); err != errClosed {
		t.Errorf("a kernel that was not started gave %v", err)
	}
}

// TestAssemblerWhenSlow: slow is called when a kernel takes long.
func TestAssemblerWhenSlow(t *testing.T) {
	a, called := NewAssembler(nil), make(chan struct{})
	a.WhenSlow(func() { close(called) })
	if err := request(t, a, "k", func() { <-called }).wait(); err != errNoText {
		t.Errorf("waiting gave %v", err)
	}
}
