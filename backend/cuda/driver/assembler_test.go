package driver

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// What these tests ask for has no text, so that no driver is needed.
var errNoText = errors.New("no text")

// ask asks for a kernel whose text there is not, once it has been read.
func ask(t *testing.T, a *Assembler, name string, read func()) *Kernel {
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

// TestAssemblerSideBySide: kernels whose texts wait for each other all come, on as many processors.
func TestAssemblerSideBySide(t *testing.T) {
	const n = 3
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	a := NewAssembler(nil)
	var all sync.WaitGroup
	all.Add(n)
	for i := range n {
		ask(t, a, fmt.Sprint(i), func() {
			all.Done()
			all.Wait()
		})
	}
	if err := a.Wait(); err != errNoText {
		t.Errorf("waiting gave %v", err)
	}
}

// TestAssemblerFails: a kernel that failed says so whenever it is used, and no other is begun.
func TestAssemblerFails(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	a, begun, fail := NewAssembler(nil), make(chan struct{}), make(chan struct{})
	k := ask(t, a, "k", func() {
		close(begun)
		<-fail
	})
	<-begun
	later := ask(t, a, "later", func() { t.Error("a kernel was begun when another had failed") })
	close(fail)
	if err := later.wait(); err != errNoText {
		t.Errorf("the one behind it gave %v", err)
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
			t.Errorf("asking for another gave %v", err)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// TestAssemblerClose: it waits for the kernel under way and begins no other.
func TestAssemblerClose(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	a, begun, closing := NewAssembler(nil), make(chan struct{}), make(chan struct{})
	ask(t, a, "k", func() {
		close(begun)
		for a.stopped() == nil {
			runtime.Gosched()
		}
		close(closing)
	})
	<-begun
	later := ask(t, a, "later", func() { t.Error("a kernel was begun when all was to end") })
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-closing:
	default:
		t.Error("it did not wait for the kernel under way")
	}
	if err := later.wait(); err != errClosed {
		t.Errorf("what was not begun gave %v", err)
	}
}

// TestAssemblerWhenSlow: who waits long is told.
func TestAssemblerWhenSlow(t *testing.T) {
	a, told := NewAssembler(nil), make(chan struct{})
	a.WhenSlow(func() { close(told) })
	if err := ask(t, a, "k", func() { <-told }).wait(); err != errNoText {
		t.Errorf("waiting gave %v", err)
	}
}
