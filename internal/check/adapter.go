package check

import (
	"errors"
	"path/filepath"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/weights/adapter"
)

// Adapter compares a model with an adapter with the golden file in dir, mostly the adapter's own folder. base is the model's path; "" is
// what the adapter's configuration says, relative to its folder.
func Adapter(path, base, dir string, o Options) (*Result, error) {
	a, err := adapter.Open(path)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	if base == "" {
		if base = a.Base; base == "" {
			return nil, errors.New("check: the adapter does not say what model it is for; give --base")
		}
		if !filepath.IsAbs(base) {
			base = filepath.Join(path, base)
		}
	}
	g, err := readGolden(dir)
	if err != nil {
		return nil, err
	}
	return adapted(a, base, g, o)
}

// adapted compares a model with an adapter with a golden.
func adapted(a *adapter.Adapter, base string, g *golden, o Options) (*Result, error) {
	b, err := modeldir.Open(base)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	prog, err := withAdapters(b, limits(g), o, []*adapter.Adapter{a})
	if err != nil {
		return nil, err
	}
	defer prog.Close()
	return compareProgram(prog, g, o, false, make([]int, len(g.cases)))
}

// withAdapters compiles a model with adapters, each in the slot of its place in the list.
func withAdapters(b *modeldir.Dir, lim backend.Limits, o Options, list []*adapter.Adapter) (compile.Runner, error) {
	o.adapters = pass.Adapters{Slots: len(list)}
	for _, a := range list {
		o.adapters.Rank = max(o.adapters.Rank, a.Rank, 1)
	}
	lim.Adapters = len(list)
	gr, err := o.graph(b)
	if err != nil {
		return nil, err
	}
	lim.Divide(o.Layout.PageRanks())
	lim.Pages = lim.Seqs * lim.SeqPages
	prog, err := o.program(gr, b, lim, quantised(b.Model, gr))
	if err != nil {
		return nil, err
	}
	for slot, a := range list {
		fit, err := b.Model.Adapt(a, prog.Slots())
		if err == nil {
			err = prog.SetAdapter(slot, func(w *graph.Weight) *graph.LowRank { return fit[w] }, nil)
		}
		if err != nil {
			prog.Close()
			return nil, err
		}
	}
	return prog, nil
}
