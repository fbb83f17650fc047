package cuda

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/quant/kv8"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
)

// leftOut is why the GPU need not compute a case of the op table; "" if it must. This is the whole list.
func leftOut(g *graph.Graph) string {
	for _, n := range operations(g) {
		switch op := n.Op.(type) {
		case graph.AdaptedMoE, graph.LoRAHeads:
			return "adapters of experts and of matrices divided by head are refused on a GPU"
		case graph.Quantize:
			if op.To == graph.Q8 {
				return "rows in Q8 are for devices whose Info says so, CPUs"
			}
		case graph.RoundRows:
			return "rows that are rounded and stay floats are for devices that multiply bytes in floats, CPUs"
		case graph.AddOutliers:
			if n.In[0].Type == graph.F32 {
				return "rows are rounded to eight bits only where activations are in BF16"
			}
		case graph.Linear:
			if eightBit(n.In[0].Type) && op.To == graph.F32 {
				return "rows are rounded to eight bits only where activations are in BF16"
			}
		case graph.KVWrite:
			if tooWide(n.In[0].Cache) {
				return "heads of such a size are refused in a cache of eight bits or four"
			}
		}
	}
	return ""
}

// tooWide reports whether a cache of eight bits or four is refused for the size of its heads.
func tooWide(c *graph.Cache) bool {
	return !c.Latent && (eightBit(c.Type) || c.Type == graph.I4) && max(c.K.Size, c.V.Size) > kv8.MaxSize
}

// operations is a graph's, those of fused nodes too.
func operations(g *graph.Graph) (all []*graph.Node) {
	for _, n := range g.Nodes {
		all = append(all, graph.Parts(n)...)
	}
	return all
}

// table is a device that knows what it can do and no more: there need not be a GPU.
func table(arch int) *Device { return &Device{loader: kernels.NewLoader(nil, arch)} }

// TestEveryOpHasAKernel: the GPU computes every op of the op table in every variant, but for those on the list, and for all that it
// does not compute it says why.
func TestEveryOpHasAKernel(t *testing.T) {
	reasons := map[string]int{}
	err := eachCase(func(c testkit.Case, _ int, g *graph.Graph, act, cache graph.Type) {
		reason := leftOut(g)
		reasons[reason]++
		for _, arch := range []int{90, 80} {
			d := table(arch)
			for _, n := range operations(g) {
				if len(d.Kernels(n)) > 0 {
					continue
				}
				if reason == "" {
					t.Errorf("%s in %s, cache of %s: compute capability %d has no kernel for %s", c.Name, act, cache, arch, n)
				}
				if d.Refusal(n) == "" {
					t.Errorf("%s is refused without a reason", n)
				}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d cases have kernels; others, by why they are left out:", reasons[""])
	delete(reasons, "")
	t.Log(reasons)
}

var everyOp = flag.Bool("ops", false, "TestEveryModelHasKernels: every model with every type of cache and format of weights")

// TestEveryModelHasKernels: every well-known model can be computed, with caches of every type and weights quantised on load to every format, unless -ops is set
// with two or three of the seven by turns: what kernels there are for an op TestEveryOpHasAKernel asks in all variants.
func TestEveryModelHasKernels(t *testing.T) {
	for i, name := range model.Shapes() {
		m, err := model.Shape(name)
		if err != nil {
			t.Fatal(err)
		}
		for k, c := range []struct {
			act, cache graph.Type
			weights    quant.Format
		}{
			{graph.F32, graph.F16, quant.Invalid}, {graph.BF16, graph.F16, quant.Invalid}, {graph.BF16, graph.F32, quant.Invalid},
			{graph.BF16, graph.I8, quant.FP8}, {graph.BF16, graph.F8, quant.INT8}, {graph.BF16, graph.BF16, quant.INT4}, {graph.BF16, graph.I4, quant.Invalid},
		} {
			if !*everyOp && (i+k)%3 > 0 {
				continue
			}
			g, err := m.Graph(model.Options{Act: c.act, Cache: c.cache})
			if err != nil && c.cache == graph.I4 && strings.Contains(err.Error(), "choose --kv-type") {
				continue // latent vectors, and attention both ways
			}
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(g.Caches, tooWide) {
				continue // refused, see TestRefusals
			}
			for _, arch := range []int{90, 80} {
				d := table(arch)
				fused, err := pass.Run(g, pass.All, pass.Options{Weights: c.weights, Kernels: compile.Kernels{Device: d}})
				if err != nil {
					t.Fatal(err)
				}
				allComputed(t, fmt.Sprintf("%s in %s, cache of %s, weights in %s", name, c.act, c.cache, c.weights), d, fused)
			}
		}
	}
}

// TestAdaptersHaveKernels: so can every one with adapters beside its products, and with them what remains of its fusions.
func TestAdaptersHaveKernels(t *testing.T) {
	for _, name := range model.Shapes() {
		m, err := model.Shape(name)
		if err != nil {
			t.Fatal(err)
		}
		g, err := m.Graph(model.Options{Act: graph.BF16, Cache: graph.F16})
		if err != nil {
			t.Fatal(err)
		}
		for _, arch := range []int{90, 80} {
			d := table(arch)
			fused, err := pass.Run(g, pass.All, pass.Options{Kernels: compile.Kernels{Device: d}, Adapters: pass.Adapters{Slots: 4, Rank: 16}})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			allComputed(t, name+" with adapters", d, fused)
		}
	}
}

// allComputed fails the test if there is no kernel for a node of the graph.
func allComputed(t *testing.T, what string, d *Device, g *graph.Graph) {
	t.Helper()
	for _, n := range g.Nodes {
		if len(d.Kernels(n)) == 0 {
			t.Errorf("%s: there is no kernel for %s: %s", what, n, d.Refusal(n))
			return
		}
	}
}

// TestRefusals: what a model might want and does not get is refused with a sentence that names what is at fault.
func TestRefusals(t *testing.T) {
	axis := func(count, size int) graph.Axis { return graph.Axis{Name: "a", Count: count, Size: size} }
	for want, build := range map[string]func(b *graph.Builder) *graph.Value{
		"its heads have 640 numbers, and 576 is the most on a GPU; the CPU has no such limit": func(b *graph.Builder) *graph.Value {
			x := b.Embed("x", b.Weight("embd", axis(9, 1), axis(1, 640)), 0)
			return b.Attention("y", x, b.KVWrite(b.Cache(0, axis(1, 640), axis(1, 640), 0), x, x), graph.Attention{Scale: 1})
		},
		"its heads have 320 numbers, and 256 is the most in a cache of i8 on a GPU; choose --kv-type f16": func(b *graph.Builder) *graph.Value {
			x := b.Embed("x", b.Weight("embd", axis(9, 1), axis(1, 320)), 0)
			return b.KVWrite(b.Cache(0, axis(1, 320), axis(1, 320), 0), x, x)
		},
		"its heads have 264 numbers, and 256 is the most in a cache of i4 on a GPU; choose --kv-type f16": func(b *graph.Builder) *graph.Value {
			x := b.Embed("x", b.Weight("embd", axis(9, 1), axis(1, 264)), 0)
			return b.KVWrite(b.Cache(0, axis(1, 264), axis(1, 264), 0), x, x)
		},
		"it chooses 65 of 128 experts, and 64 of 1024 is the most on a GPU; the CPU has no such limit": func(b *graph.Builder) *graph.Value {
			x := b.Embed("x", b.Weight("embd", axis(9, 1), axis(16, 1)), 0)
			var weights []*graph.Weight
			for _, name := range []string{"gate", "up", "down"} {
				weights = append(weights, b.Stack(name, axis(128, 1), axis(16, 1), axis(16, 1)))
			}
			return b.MoE("y", x, b.Embed("scores", b.Weight("scores_embd", axis(9, 1), axis(128, 1)), 0), graph.MoE{Experts: 128, TopK: 65}, weights)
		},
	} {
		cache := graph.F16
		if strings.HasSuffix(want, "f16") {
			cache = graph.I8
		}
		if strings.Contains(want, "i4") {
			cache = graph.I4
		}
		b := graph.NewBuilder("refused", testkit.Lookup, graph.BF16, cache)
		v := build(b)
		if d := table(90); len(d.Kernels(v.From)) > 0 || d.Refusal(v.From) != want {
			t.Errorf("%d kernels, refused with %q; %q should be said", len(d.Kernels(v.From)), d.Refusal(v.From), want)
		}
	}
}
