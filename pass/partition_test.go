package pass_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// small is the graph of a small model.
func small(t *testing.T, name string) *graph.Graph {
	t.Helper()
	b, err := modeldir.Open(filepath.Join("../internal/check/testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestPartitionOnOneDevice: the very same graph.
func TestPartitionOnOneDevice(t *testing.T) {
	dirs, err := filepath.Glob("../internal/check/testdata/*/config.json")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("the small models are missing: %v", err)
	}
	for _, dir := range dirs {
		g := small(t, filepath.Base(filepath.Dir(dir)))
		text := g.String()
		for _, l := range []pass.Layout{{}, pass.OneDevice, {Tensor: 1, Pipeline: 1, Data: 4, Expert: 1}} {
			if part, err := pass.Partition(g, pass.Options{Layout: l}); err != nil || part.String() != text {
				t.Errorf("%s: the graph is another on one device, %v", dir, err)
			}
		}
	}
}

// placedModel is one whose experts are placed by load in the test's golden.
const placedModel = "jamba-bias"

// TestPartitionGoldens compares the graphs of every device with testdata; UPDATE=1 go test rewrites them.
func TestPartitionGoldens(t *testing.T) {
	for _, c := range []struct {
		name string
		l    pass.Layout
	}{
		{placedModel, pass.Layout{Tensor: 1, Pipeline: 1, Data: 2, Expert: 2}},
		{"llama-default", pass.Layout{Tensor: 2, Pipeline: 2, Data: 1}},
		{"llama-mqa-tied-bias", pass.Layout{Tensor: 2, Pipeline: 1, Data: 1}},
		{"gpt2-untied", pass.Layout{Tensor: 2, Pipeline: 1, Data: 1}},
		{"mixtral-window", pass.Layout{Tensor: 2, Pipeline: 1, Data: 1}},
		{"gptoss-yarn", pass.Layout{Tensor: 2, Pipeline: 2, Data: 1, Expert: 2}},
		{"gptoss-yarn", pass.Layout{Tensor: 2, Pipeline: 1, Data: 2, Expert: 4}},
		{"llama-default", pass.Layout{Tensor: 1, Pipeline: 2, Data: 1, Sequence: 2, Method: pass.Ring}},
		{"llama-default", pass.Layout{Tensor: 1, Pipeline: 1, Data: 1, Sequence: 2, Method: pass.Ulysses}},
		{"gptoss-yarn", pass.Layout{Tensor: 2, Pipeline: 1, Data: 1, Expert: 4, Sequence: 2, Method: pass.Ulysses}},
		{"qwen3.5-wide", pass.Layout{Tensor: 1, Pipeline: 1, Data: 1, Sequence: 2, Method: pass.Ring}},
		{"qwen3.5-wide", pass.Split(4, 3)},
		{"llama-mqa-tied-bias", pass.Split(2, 1)},
		{"qwen3moe-ofall", pass.WithoutExperts(2, 2, 1)},
		{"qwen3moe-ofall", withSlots(pass.WithoutExperts(2, 2, 2), 2)},
		{"qwen3next-dense", pass.WithoutExperts(4, 3, 4)},      // with experts beside those that all rows pass
		{"gemma4", pass.Split(small(t, "gemma4").Layers(), 1)}, // which attends to keys of layers before
	} {
		name, l, loads := c.name, c.l, pass.ExpertLoads{}
		if name == placedModel {
			loads = pass.ExpertLoads{Counts: map[string][]float32{"blk.1.ffn_gate_exps.weight": {5, 90, 7, 30}}, Extra: 1}
		}
		g := small(t, name)
		var text strings.Builder
		for stage := range l.Pipeline {
			for rank := range l.Tensor * max(l.Sequence, 1) {
				for replica := range l.Sources() {
					at := pass.Rank{Replica: replica, Stage: stage, Sequence: rank / l.Tensor, Tensor: rank % l.Tensor}
					part, err := pass.Partition(g, pass.Options{Layout: l, Rank: at, Loads: loads})
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					text.WriteString("# " + l.String() + ", " + at.String() + "\n" + part.String() + "\n")
				}
			}
		}
		file := filepath.Join("testdata", name+"."+strings.ReplaceAll(l.String(), " ", ".")+".txt")
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("%v; UPDATE=1 go test makes it", err)
		}
		if d := cmp.Diff(string(want), text.String()); d != "" {
			t.Errorf("%s differs (-golden +now):\n%s", file, d)
		}
	}
}

// withSlots is a layout with slots for experts.
func withSlots(l pass.Layout, slots int) pass.Layout {
	l.ExpertSlots = slots
	return l
}

// normedHeads is a graph with a norm over all heads together.
func normedHeads(t *testing.T, norm func(b *graph.Builder, x *graph.Value, w *graph.Weight) *graph.Value) *graph.Graph {
	hidden, heads := graph.Axis{Name: "hidden", Count: 32, Size: 1}, graph.Axis{Name: "heads", Count: 4, Size: 8}
	b := graph.NewBuilder("test", testkit.Lookup, graph.F32, graph.F32)
	x := b.Embed("x", b.Weight("embd", hidden, hidden), 0)
	b.Layer(0)
	q := norm(b, b.Linear("q", x, b.Weight("q", heads, hidden), nil), b.Vector("q_norm", heads))
	g, err := b.Finish(b.Linear("o", q, b.Weight("o", hidden, heads), nil))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestPartitionSums: devices that have some of the heads that are normalised together sum the squares of all.
func TestPartitionSums(t *testing.T) {
	g := normedHeads(t, func(b *graph.Builder, x *graph.Value, w *graph.Weight) *graph.Value {
		return b.RMSNorm("q_norm", x, w, 1e-6)
	})
	part, err := pass.Partition(g, pass.Options{Layout: pass.Layout{Tensor: 2, Pipeline: 1, Data: 1}, Rank: pass.Rank{Tensor: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"RowSums(q) {of squares}", "AllReduce(q_norm.sums.partial)", "of rows of 32"} {
		if !strings.Contains(part.String(), want) {
			t.Errorf("there is no %q in\n%s", want, part)
		}
	}
}

// TestPartitionRefusesWholeRows: what is centred over all heads together needs what other devices have.
func TestPartitionRefusesWholeRows(t *testing.T) {
	g := normedHeads(t, func(b *graph.Builder, x *graph.Value, w *graph.Weight) *graph.Value {
		return b.LayerNorm("q_norm", x, w, nil, 1e-6)
	})
	l := pass.Layout{Tensor: 2, Pipeline: 1, Data: 1}
	if err := l.Check(g); err == nil || !strings.Contains(err.Error(), "q_norm") || !strings.Contains(err.Error(), "cannot be spread as tp2") {
		t.Errorf("heads that are normalised together: %v", err)
	}
}

// TestPartitionRefuses: which axis, how many there are of it, and by what they do not divide.
func TestPartitionRefuses(t *testing.T) {
	for _, c := range []struct {
		model string
		o     pass.Options
		want  string
	}{
		{"llama-default", pass.Options{Layout: pass.Layout{Tensor: 3, Pipeline: 1, Data: 1}}, "heads cannot be divided equally among 3 devices"},
		{"llama-default", pass.Options{Layout: pass.Layout{Tensor: 1, Pipeline: 9, Data: 1}}, "9 pipeline stages for the "},
		{"llama-default", pass.Options{Layout: pass.Split(2, 2)}, "gives pipeline stage 0 no layers"},
		{"llama-default", pass.Options{Layout: pass.Split(3, 1)}, "have 3 layers together, and there are 2"},
		{"llama-default", pass.Options{Layout: pass.WithoutExperts(2, 2, 2)}, "experts are to be apart from their layers, and llama has none"},
		{"qwen3moe-ofall", pass.Options{Layout: pass.WithoutExperts(2, 2, 3)}, "of the first 3 layers apart; "},
		{"qwen3moe-ofall", pass.Options{Layout: withSlots(pass.WithoutExperts(2, 2, 2), 99)}, "has 99 slots for experts of each layer, and "},
		{"qwen3moe-ofall", pass.Options{Layout: withSlots(pass.Split(2, 1), 2)}, "a cache is of experts that are apart from their layers"},
		{"qwen3moe-ofall", pass.Options{Layout: pass.Layout{Tensor: 2, Pipeline: 2, Data: 1, Layers: []int{1, 1}, EarlyExperts: 2}}, "which two devices do that divide layers alone"},
		{"llama-default", pass.Options{Layout: pass.Layout{Tensor: 1, Pipeline: 1, Data: 1, Expert: 2, Layers: []int{1, 1}}}, "says of 2 pipeline stages"},
		{"llama-default", pass.Options{Layout: pass.Layout{Tensor: 2, Pipeline: 1, Data: 1, Expert: 2}}, "divides experts, and llama has none"},
		{"qwen3moe-ofall", pass.Options{Layout: pass.Layout{Tensor: 1, Pipeline: 1, Data: 1, Expert: 2}}, "divides experts among 2 devices"},
		{"llama-default", pass.Options{Layout: pass.Layout{Tensor: 2, Pipeline: 1, Data: 1}, Rank: pass.Rank{Tensor: 2}}, "rank 2 is none of the layout tp2"},
		{"llama-default", pass.Options{Layout: pass.Layout{Tensor: 1, Pipeline: 1, Data: 1, Sequence: 2, Method: pass.Ring}, Rank: pass.Rank{Sequence: 2}}, "rows 2 is none of the layout tp1 pp1 dp1 sp2 ring"},
		{"llama-default", pass.Options{Layout: pass.Layout{Tensor: 2, Pipeline: 1, Data: 1, Sequence: 4, Method: pass.Ulysses}}, "4 heads cannot be divided equally among 8 devices (--tp 2 × --sp 4); take --sp-method ring"},
		{"llama-default", pass.Options{Layout: pass.Layout{Tensor: 1, Pipeline: 1, Data: 1, Sequence: 2, Method: "star"}}, "by the method \"star\"; there are ulysses and ring"},
		{"kimi-linear", pass.Options{Layout: pass.Layout{Tensor: 1, Pipeline: 1, Data: 1, Sequence: 2, Method: pass.Ulysses}}, "a latent cache, which 2 devices of --sp cannot divide by heads; take --sp-method ring"},
		{"qwen3moe-ofall", pass.Options{Layout: pass.Layout{Tensor: 2, Pipeline: 1, Data: 1, Sequence: 4, Expert: 4, Method: pass.Ring}}, "up to 2 or all 8 devices of --tp and --sp can share them"},
	} {
		if _, err := pass.Partition(small(t, c.model), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in %s: %v; want %q", c.model, c.o.Layout, err, c.want)
		}
	}
}

// TestPartialSums: a summand that something reads before it is summed, and a shard where a whole row is wanted, are refused.
func TestPartialSums(t *testing.T) {
	hidden := graph.Axis{Name: "hidden", Count: 64, Size: 1}
	ffn := graph.Axis{Name: "ffn", Count: 32, Size: 1, Shards: 2}
	for want, build := range map[string]func(b *graph.Builder, up, down *graph.Value) *graph.Value{
		"reads down, of which each device has only a summand": func(b *graph.Builder, up, down *graph.Value) *graph.Value {
			return b.Softcap("capped", down, 30)
		},
		"reads down, of which each device has only a summand: an AllReduce must come before": func(b *graph.Builder, up, down *graph.Value) *graph.Value {
			return b.Add("sum", down, down)
		},
		"its result down [tokens, hidden 64] is not whole on this device": func(b *graph.Builder, up, down *graph.Value) *graph.Value { return down },
		"its result up [tokens, ffn 32 /2] is not whole on this device":   func(b *graph.Builder, up, down *graph.Value) *graph.Value { return up },
		"up is [tokens, ffn 32 /2], one of 2 shards, and whole rows are wanted": func(b *graph.Builder, up, down *graph.Value) *graph.Value {
			return b.RMSNorm("norm", up, b.Vector("norm", ffn), 1e-6)
		},
		"up is a whole sum already": func(b *graph.Builder, up, down *graph.Value) *graph.Value {
			return b.Emit("sum", graph.AllReduce{Ranks: 2}, []*graph.Value{up})[0]
		},
		"is [tokens, ffn 32 /2] and weight whole takes ffn 32": func(b *graph.Builder, up, down *graph.Value) *graph.Value {
			return b.Linear("wrong", up, b.Weight("whole", hidden, graph.Axis{Name: "ffn", Count: 32, Size: 1}), nil)
		},
	} {
		b := graph.NewBuilder("test", testkit.Lookup, graph.F32, graph.F32)
		up := b.Linear("up", b.Embed("x", b.Weight("embd", hidden, hidden), 0), b.Weight("up", ffn, hidden), nil)
		down := b.Linear("down", up, b.Weight("down", hidden, ffn), nil)
		if _, err := b.Finish(build(b, up, down)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	b := graph.NewBuilder("test", testkit.Lookup, graph.F32, graph.F32)
	up := b.Linear("up", b.Embed("x", b.Weight("embd", hidden, hidden), 0), b.Weight("up", ffn, hidden), nil)
	down := b.Linear("down", up, b.Weight("down", hidden, ffn), nil)
	if _, err := b.Finish(b.Softcap("capped", b.Emit("sum", graph.AllReduce{Ranks: 2}, []*graph.Value{down})[0], 30)); err != nil {
		t.Errorf("a sum that is whole: %v", err)
	}
}
