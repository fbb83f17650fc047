package compile

import (
	"path/filepath"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

var testLimits = backend.Limits{Tokens: 33, Seqs: 3, Logits: 3, PageSize: 16, SeqPages: 4, Pages: 12}

// graphs are those of the small models, fused.
func graphs(t *testing.T) map[string]*graph.Graph {
	t.Helper()
	dirs, err := filepath.Glob("../internal/check/testdata/*/config.json")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("the small models are missing: %v", err)
	}
	all := map[string]*graph.Graph{}
	for _, file := range dirs {
		b, err := modeldir.Open(filepath.Dir(file))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F16})
		if err != nil {
			t.Fatal(err)
		}
		if g, err = pass.Run(g, pass.All, pass.Options{}); err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(filepath.Dir(file))] = g
	}
	return all
}

// TestArrange: no two values overlap while both are needed, all are aligned and inside, and the arena is no larger than
// all values one behind the other. That holds too where results have to lie where those of another graph do.
func TestArrange(t *testing.T) {
	for name, g := range graphs(t) {
		scratch := make([]int64, len(g.Nodes))
		for i := range scratch {
			scratch[i] = int64(i%3) * 1000
		}
		l := arrange(g, testLimits, scratch, nil)
		if sum := checkArena(t, name, g, &l); l.size > sum*5/9 {
			t.Errorf("%s: the arena takes %d bytes and all values together %d", name, l.size, sum)
		}
		l.results = results(g)
		apart, err := graph.Rewrite(g, func(r *graph.Rewriter, n *graph.Node) bool { return r.Unfuse(n) })
		if err != nil {
			t.Fatal(err)
		}
		fixed := l.resultsAs(apart)
		other := arrange(apart, testLimits, make([]int64, len(apart.Nodes)), fixed)
		checkArena(t, name+" taken apart", apart, &other)
		for v, at := range fixed {
			if other.values[v] != at {
				t.Errorf("%s: %s lies at %+v and not at %+v", name, v.Name, other.values[v], at)
			}
		}
	}
}

// checkArena checks a layout, and gives the bytes of all values together.
func checkArena(t *testing.T, name string, g *graph.Graph, l *layout) (sum int64) {
	t.Helper()
	if l.size%align != 0 {
		t.Errorf("%s: the arena ends at %d, within the room of its last value", name, l.size)
	}
	made, last := map[*graph.Value]int{}, map[*graph.Value]int{}
	for i, n := range g.Nodes {
		for _, v := range n.Out {
			made[v], last[v] = i, i
		}
		for _, v := range n.In {
			last[v] = i
		}
	}
	last[g.Output] = len(g.Nodes)
	if g.Hidden != nil {
		last[g.Hidden] = len(g.Nodes)
	}
	for v, s := range l.values {
		if s.off%align != 0 || s.off+s.size > l.size || s.size != int64(testLimits.Rows(v.Rows))*v.RowBytes() {
			t.Errorf("%s: %s lies at %+v of %d", name, v.Name, s, l.size)
		}
		sum += s.size + align
		for o, p := range l.values {
			together := made[v] <= last[o] && made[o] <= last[v]
			if v != o && together && s.off < p.off+p.size && p.off < s.off+s.size {
				t.Errorf("%s: %s and %s overlap", name, v.Name, o.Name)
			}
		}
		for i, p := range l.scratch {
			if p.size > 0 && made[v] <= i && i <= last[v] && s.off < p.off+p.size && p.off < s.off+s.size {
				t.Errorf("%s: %s and the scratch of node %d overlap", name, v.Name, i)
			}
		}
	}
	return sum
}
