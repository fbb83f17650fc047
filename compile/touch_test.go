package compile

import (
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/graph"
)

// toucher is a device that notes what of its memory is touched.
type toucher struct {
	backend.Device
	touched []backend.Buffer
	first   chan struct{} // closed by the first touch, after which
	goOn    chan struct{} // it waits for this
}

func (d *toucher) Touch(b backend.Buffer) {
	if d.touched = append(d.touched, b); len(d.touched) == 1 {
		close(d.first)
		<-d.goOn
	}
}

// startTouching makes a program with two caches, of five and three strides, whose memory is being touched.
func startTouching(most int64) (*Program, *toucher) {
	d := &toucher{Device: ref.New(), first: make(chan struct{}), goOn: make(chan struct{})}
	long, short := &graph.Cache{Name: "long"}, &graph.Cache{Name: "short"}
	p := &Program{
		Graph: &graph.Graph{Caches: []*graph.Cache{long, short}}, dev: d,
		pages: map[*graph.Cache]backend.Buffer{long: {Mem: "long", Len: 5*stride - 7}, short: {Mem: "short", Len: 3 * stride}},
	}
	p.TouchAhead(most)
	<-d.first
	return p, d
}

// TestTouchAhead: the beginnings of all caches come first, and there is an end at the bound.
func TestTouchAhead(t *testing.T) {
	of := func(name string, from, n int64) backend.Buffer { return backend.Buffer{Mem: name, Off: from, Len: n} }
	all := []backend.Buffer{
		of("long", 0, stride), of("short", 0, stride), of("long", stride, stride), of("short", stride, stride),
		of("long", 2*stride, stride), of("short", 2*stride, stride), of("long", 3*stride, stride), of("long", 4*stride, stride-7),
	}
	for most, want := range map[int64][]backend.Buffer{
		1 << 40:        all,
		2*stride + 100: {all[0], all[1], of("long", stride, 100)},
	} {
		p, d := startTouching(most)
		close(d.goOn)
		p.touching.done.Wait()
		if !slices.Equal(d.touched, want) {
			t.Errorf("with %d bytes: touched %v, and %v is right", most, d.touched, want)
		}
	}
}

// TestCloseEndsTouching: what is being touched is not freed under it, and no more is touched afterwards.
func TestCloseEndsTouching(t *testing.T) {
	p, d := startTouching(1 << 40)
	p.touching.stop.Store(true)
	close(d.goOn)
	p.Close()
	if len(d.touched) != 1 {
		t.Errorf("%d pieces were touched after the program was to close", len(d.touched))
	}
}
