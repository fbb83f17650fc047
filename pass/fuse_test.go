package pass_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// everything is a device that computes all fused ops, and norms in steps of up to three rows.
type everything struct{}

func (everything) Has(*graph.Node) bool     { return true }
func (everything) NormRows(*graph.Node) int { return 3 }

// lines are a graph's nodes as text, sorted: fused nodes stand where the first of their operations did.
func lines(g *graph.Graph) []string {
	all := strings.Split(g.String(), "\n")
	slices.Sort(all)
	return all
}

// unfused takes every fused op apart.
func unfused(t *testing.T, g *graph.Graph) *graph.Graph {
	t.Helper()
	for {
		found := false
		next, err := graph.Rewrite(g, func(r *graph.Rewriter, n *graph.Node) bool {
			ok := r.Unfuse(n)
			found = found || ok
			return ok
		})
		if err != nil {
			t.Fatal(err)
		}
		if g = next; !found {
			return g
		}
	}
}

// TestUnfuse: what is fused and taken apart again is the graph that was there, of every small model; and every row of the table finds
// something in one of them, but what they have no weights for.
func TestUnfuse(t *testing.T) {
	dirs, err := filepath.Glob("../internal/check/testdata/*/config.json")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("the small models are missing: %v", err)
	}
	seen := map[string]bool{}
	for _, file := range dirs {
		b, err := modeldir.Open(filepath.Dir(file))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		g, err := b.Model.Graph(model.Options{Act: graph.BF16, Cache: graph.F16})
		if err != nil {
			t.Fatal(err)
		}
		fused, err := pass.Fuse(g, pass.Options{Kernels: everything{}})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range fused.Nodes {
			seen[n.Op.Name()] = true
		}
		step := &graph.Step{Logits: 1, Seqs: []graph.Seq{{New: 3, Past: 5}}}
		if was, now := g.Work(step), fused.Work(step); now.FLOPs != was.FLOPs || now.WeightBytes != was.WeightBytes || now.CacheRead != was.CacheRead || now.Bytes() > was.Bytes() {
			t.Errorf("%s: the fused graph does %+v and the graph %+v", file, now, was)
		}
		if want, got := lines(g), lines(unfused(t, fused)); !slices.Equal(got, want) {
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Errorf("%s: taken apart there is\n%s\nand before there was\n%s", file, got[i], want[i])
					break
				}
			}
		}
	}
	for _, op := range []string{"AddNorm", "AddNormRouter", "MoEAddNorm", "HeadNormAttention", "RoPEAttention", "GatedLinear", "LinearGroup", "LinearAddNorm", "DeferredNorm"} {
		if !seen[op] {
			t.Errorf("no small model has a %s", op)
		}
	}
}

// TestFuseAllReduce: what two devices add up is one node with the norm behind it, of every block of a model; it sends what it sent, and taken apart it is
// what was there.
func TestFuseAllReduce(t *testing.T) {
	for name, want := range map[string]int{"llama-default": 3, "mixtral-window": 1, "gpt2-untied": 0} { // behind the last block rows are selected; mixtral's router takes the norm before experts; gpt2's are LayerNorms
		part, err := pass.Partition(small(t, name), pass.Options{Layout: pass.Layout{Tensor: 2, Pipeline: 1, Data: 1}})
		if err != nil {
			t.Fatal(err)
		}
		fused, err := pass.Fuse(part, pass.Options{Kernels: everything{}})
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, n := range fused.Nodes {
			if o, ok := n.Op.(*graph.Fused); ok && o.Kind == graph.AllReduceAddNorm {
				found++
			}
		}
		if found != want {
			t.Errorf("%s: %d sums of devices are one node with their norm, want %d:\n%s", name, found, want, fused)
		}
		step := &graph.Step{Logits: 1, Seqs: []graph.Seq{{New: 3, Past: 5}}}
		if was, now := part.Work(step), fused.Work(step); now.LinkBytes != was.LinkBytes || now.Messages != was.Messages || now.FLOPs != was.FLOPs || now.Bytes() > was.Bytes() {
			t.Errorf("%s: the fused graph does %+v and the graph %+v", name, now, was)
		}
		if got := lines(unfused(t, fused)); !slices.Equal(got, lines(part)) {
			t.Errorf("%s: taken apart there is\n%s\nand before there was\n%s", name, strings.Join(got, "\n"), part)
		}
	}
}

// names are the ops of a graph's nodes.
func names(g *graph.Graph) (all []string) {
	for _, n := range g.Nodes {
		all = append(all, n.Op.Name())
	}
	return all
}

// TestFuseApart: what belongs together is found wherever it is in the list, and not where something outside needs what is within.
func TestFuseApart(t *testing.T) {
	axis := graph.Axis{Name: "a", Count: 64, Size: 1}
	build := func(f func(b *graph.Builder, x *graph.Value, linear func(string, *graph.Value) *graph.Value) *graph.Value) *graph.Graph {
		t.Helper()
		b := graph.NewBuilder("test", testkit.Lookup, graph.BF16, graph.BF16)
		linear := func(name string, x *graph.Value) *graph.Value {
			return b.Linear(name, x, b.Weight(name, axis, axis), nil)
		}
		g, err := b.Finish(f(b, b.Embed("x", b.Weight("embd", axis, axis), 0), linear))
		if err == nil {
			g, err = pass.Fuse(g, pass.Options{Kernels: everything{}})
		}
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	type values = *graph.Value
	for want, f := range map[string]func(b *graph.Builder, x values, linear func(string, values) values) values{
		// A function between two layers of a group.
		"[Embed LinearGroup Act Add]": func(b *graph.Builder, x values, linear func(string, values) values) values {
			q := b.Act("act", linear("q", x), graph.Silu)
			return b.Add("y", q, linear("k", x))
		},
		// A gate that something else reads too.
		"[Embed LinearGroup ActMul Add]": func(b *graph.Builder, x values, linear func(string, values) values) values {
			gate, up := linear("gate", x), linear("up", x)
			return b.Add("y", b.ActMul("act", gate, up, graph.Silu), gate)
		},
		// A norm that a function reads beside the product.
		"[Embed RMSNorm Linear Act Add]": func(b *graph.Builder, x values, linear func(string, values) values) values {
			n := b.RMSNorm("n", x, b.Vector("norm", axis), 1e-5)
			return b.Add("y", linear("q", n), b.Act("act", n, graph.Silu))
		},
		// Hidden states are made even if only a product reads them, whatever that can do itself.
		"[Embed DeferredNorm NormLinear]": func(b *graph.Builder, x values, linear func(string, values) values) values {
			n := b.RMSNorm("n", x, b.Vector("norm", axis), 1e-5)
			b.Hidden(n)
			return linear("y", n)
		},
		// Hidden states that are rounded are not left out.
		"[Embed RMSNorm Quantize Linear]": func(b *graph.Builder, x values, linear func(string, values) values) values {
			n := b.RMSNorm("n", x, b.Vector("norm", axis), 1e-5)
			b.Hidden(n)
			q := b.Emit("q", graph.Quantize{To: graph.F8}, []*graph.Value{n})[0]
			return b.Linear("y", q, b.Weight("w/FP8", axis, axis), nil)
		},
	} {
		if got := fmt.Sprint(names(build(f))); got != want {
			t.Errorf("the graph is %s; want %s", got, want)
		}
	}
}
