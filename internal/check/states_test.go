package check

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/pass"
)

// TestStoredStates: a state that lay in pages of keys and values meanwhile, while another was in its place, is what it was.
func TestStoredStates(t *testing.T) {
	with := func(name string, n int) func(t *testing.T) []backend.Device {
		return func(t *testing.T) (all []backend.Device) {
			for range n {
				d := layoutDevices[name]()
				t.Cleanup(func() { d.Close() })
				all = append(all, d)
			}
			return all
		}
	}
	for name, open := range map[string]func(t *testing.T) []backend.Device{"ref": with("ref", 1), "cpu": with("cpu", 1), "two": with("cpu", 2), "cuda": func(t *testing.T) []backend.Device {
		if _, err := cuda.Devices(); err != nil {
			t.Skipf("no GPU to test on: %v", err)
		}
		d, err := cuda.New(cuda.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return []backend.Device{d}
	}} {
		for _, model := range []string{"falcon-h1-scaled", "kimi-linear", "qwen3.5-wide"} {
			t.Run(name+"/"+model, func(t *testing.T) {
				o := Options{Devices: open(t), Cache: graph.F32, Layout: pass.OneDevice}
				o.Layout.Tensor = len(o.Devices)
				storedState(t, filepath.Join("testdata", model), o)
			})
		}
	}
}

// storedState compares the logits of a token behind a prompt with those after the state was stored and fetched.
func storedState(t *testing.T, dir string, o Options) {
	b, err := modeldir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	g, err := b.Model.Graph(graphOptions(o))
	if err != nil {
		t.Fatal(err)
	}
	lim := backend.Limits{Tokens: 32, Seqs: 1, Logits: 1, PageSize: 16, SeqPages: 3, Pages: 64}
	lim.KeepAll(g)
	prog, err := o.program(g, b, lim, true)
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	groups := prog.Groups()
	main := graph.MainGroup(groups)
	state := slices.IndexFunc(groups, func(c graph.CacheGroup) bool { return c.Recurrent })
	var pages []int32
	for i := range prog.StatePages(state, main) {
		pages = append(pages, int32(60-i)) // the first are the sequence's own
	}
	if len(pages) < 1 || len(pages) > 57 {
		t.Fatalf("a state takes %d pages; the test wants 1 to 57", len(pages))
	}
	prompt := make([]int32, 32)
	for i := range prompt {
		prompt[i] = int32(3 + i*i%60)
	}
	r := &runner{prog: prog, past: make([]int, 1)}
	next := func(meanwhile func() error) []float32 {
		r.past[0] = 0
		if _, err := r.forward(map[int][]int32{0: prompt}, []int{0}, true); err != nil {
			t.Fatal(err)
		}
		if err := meanwhile(); err != nil {
			t.Fatal(err)
		}
		logits, err := r.forward(map[int][]int32{0: {5}}, []int{0}, true)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(logits)
	}
	want := next(func() error { return nil })
	got := next(func() error {
		if err := prog.StoreState(state, 0, main, pages); err != nil {
			return err
		}
		if err := prog.CopyPage(state, 9, 0); err != nil {
			return err
		}
		return prog.FetchState(state, 0, main, pages)
	})
	if !slices.Equal(got, want) {
		t.Error("the next token's logits are others after the state was stored in pages and fetched")
	}
	if got = next(func() error { return prog.CopyPage(state, 9, 0) }); slices.Equal(got, want) {
		t.Error("the next token does not depend on the state: the test does not test")
	}
	short := pages[:len(pages)-1]
	if err := prog.StoreState(state, 0, main, short); err == nil && len(o.Devices) == 1 {
		t.Error("a state was stored in fewer pages than it takes")
	}
}
