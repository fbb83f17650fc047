package compile

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/graph"
)

// prefaulter is a device that notes what of its memory is prefaulted.
type prefaulter struct {
	backend.Device
	prefaulted []backend.Buffer
	first      chan struct{} // closed by the first touch, after which
	goOn       chan struct{} // it waits for this
	busy       atomic.Bool   // memory is being prefaulted
	freed      atomic.Int64  // buffers
	under      atomic.Int64  // of them, those that were freed while memory was being prefaulted
}

func (d *prefaulter) Free(backend.Buffer) {
	if d.freed.Add(1); d.busy.Load() {
		d.under.Add(1)
	}
}

func (d *prefaulter) Prefault(b backend.Buffer) {
	d.busy.Store(true)
	defer d.busy.Store(false)
	if d.prefaulted = append(d.prefaulted, b); len(d.prefaulted) == 1 {
		close(d.first)
		<-d.goOn
	}
}

// startPrefaulting makes a program with two caches, of five and three strides, whose memory is being prefaulted.
func startPrefaulting(most int64) (*Program, *prefaulter) {
	d := &prefaulter{Device: ref.New(), first: make(chan struct{}), goOn: make(chan struct{})}
	long, short := &graph.Cache{Name: "long"}, &graph.Cache{Name: "short"}
	p := &Program{
		Graph: &graph.Graph{Caches: []*graph.Cache{long, short}}, dev: d,
		pages: map[*graph.Cache]backend.Buffer{long: {Mem: "long", Len: 5*stride - 7}, short: {Mem: "short", Len: 3 * stride}},
		owned: []backend.Buffer{{Mem: "long"}, {Mem: "short"}},
	}
	p.PrefaultAhead(most)
	<-d.first
	return p, d
}

// TestPrefaultAhead: the beginnings of all caches come first, and there is an end at the bound.
func TestPrefaultAhead(t *testing.T) {
	of := func(name string, from, n int64) backend.Buffer { return backend.Buffer{Mem: name, Off: from, Len: n} }
	all := []backend.Buffer{
		of("long", 0, stride), of("short", 0, stride), of("long", stride, stride), of("short", stride, stride),
		of("long", 2*stride, stride), of("short", 2*stride, stride), of("long", 3*stride, stride), of("long", 4*stride, stride-7),
	}
	for most, want := range map[int64][]backend.Buffer{
		1 << 40:        all,
		2*stride + 100: {all[0], all[1], of("long", stride, 100)},
	} {
		p, d := startPrefaulting(most)
		close(d.goOn)
		p.prefaulting.done.Wait()
		if !slices.Equal(d.prefaulted, want) {
			t.Errorf("with %d bytes: prefaulted %v, and %v is right", most, d.prefaulted, want)
		}
	}
}

// TestCloseEndsPrefaulting: what is being prefaulted is not freed under it, and no more is prefaulted afterwards.
func TestCloseEndsPrefaulting(t *testing.T) {
	p, d := startPrefaulting(1 << 40)
	closed := make(chan struct{})
	go func() {
		p.Close()
		close(closed)
	}()
	for !p.prefaulting.stop.Load() {
		runtime.Gosched()
	}
	time.Sleep(10 * time.Millisecond) // in which nothing may be freed
	close(d.goOn)
	<-closed
	if len(d.prefaulted) != 1 || d.freed.Load() != 2 || d.under.Load() != 0 {
		t.Errorf("%d pieces were prefaulted after the program was to close, and of %d buffers %d were freed meanwhile", len(d.prefaulted)-1, d.freed.Load(), d.under.Load())
	}
}
