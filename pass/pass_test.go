package pass_test

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
)

// TestSameMeaning: a graph computes the same after the passes as before, on the reference, which runs fused ops as what
// they stand for, with a device that fuses whatever the table has. Weights of floats leave actquant nothing to do, so the same is the same to the last bit.
func TestSameMeaning(t *testing.T) {
	dirs, err := filepath.Glob("../internal/check/testdata/*/config.json")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("the small models are missing: %v", err)
	}
	steps := testkit.Steps{{9, 20}, {1, 1}}
	for _, file := range dirs {
		lim := testkit.LimitsFor(steps, 16)
		b, err := modeldir.Open(filepath.Dir(file))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		before, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
		if err != nil {
			t.Fatal(err)
		}
		lim.KeepAll(before)
		text := before.String()
		after, err := pass.Run(before, pass.All, pass.Options{Q8: true, Kernels: everything{}})
		if err != nil {
			t.Fatal(err)
		}
		if before.String() != text {
			t.Errorf("%s: the passes changed the graph they were given", file)
		}
		batches := testkit.Sequence(steps, lim, 96, false, 1)
		want, err := testkit.Outputs(before, ref.New(), b, lim, batches)
		if err != nil {
			t.Fatal(err)
		}
		got, err := testkit.Outputs(after, ref.New(), b, lim, batches)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if e := testkit.WorstError(got[i], want[i]); e != 0 {
				t.Errorf("%s: step %d is off by %g after the passes", file, i, e)
			}
		}
	}
}

// TestActQuant: one Quantize for all the matrices in block formats that read a value, none for matrices of floats.
func TestActQuant(t *testing.T) {
	axis := graph.Axis{Name: "a", Count: 64, Size: 1}
	b := graph.NewBuilder("test", testkit.Lookup, graph.F32, graph.F32)
	x := b.Embed("x", b.Weight("embd", axis, axis), 0)
	q := b.Linear("q", x, b.Weight("q/Q4_0", axis, axis), nil)
	k := b.Linear("k", x, b.Weight("k/Q8_0", axis, axis), nil)
	f := b.Linear("f", x, b.Weight("f/F16", axis, axis), nil)
	g, err := b.Finish(b.Add("sum", b.Add("qk", q, k), f))
	if err != nil {
		t.Fatal(err)
	}
	for on, want := range map[bool]int{true: 1, false: 0} {
		after, err := pass.ActQuant(g, pass.Options{Q8: on})
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(after.String(), "= Quantize("); n != want {
			t.Errorf("%d Quantize nodes, %d are right:\n%s", n, want, after)
		}
	}
}

func TestUnknownPass(t *testing.T) {
	if _, err := pass.Run(&graph.Graph{}, "magic", pass.Options{}); err == nil {
		t.Error("a pass that does not exist ran")
	}
}

// TestWeights: matrices in floats are quantised, but not the one that makes logits; what reads them in BF16 quantises its inputs once.
func TestWeights(t *testing.T) {
	axis, odd := graph.Axis{Name: "a", Count: 64, Size: 1}, graph.Axis{Name: "odd", Count: 24, Size: 1}
	b := graph.NewBuilder("test", testkit.Lookup, graph.BF16, graph.BF16)
	x := b.Embed("x", b.Weight("embd/BF16", axis, axis), 0)
	sum := b.Add("sum", b.Linear("q", x, b.Weight("q/BF16", axis, axis), b.Vector("bias", axis)), b.Linear("k", x, b.Weight("k/F16", axis, axis), nil))
	narrow := b.Linear("narrow", b.Linear("wide", sum, b.Weight("wide/Q4_0", odd, axis), nil), b.Weight("narrow/BF16", axis, odd), nil)
	g, err := b.Finish(b.Linear("logits", b.SelectRows("selected", narrow), b.Weight("head/BF16", axis, axis), nil))
	if err != nil {
		t.Fatal(err)
	}
	before := g.String()
	after, err := pass.Run(g, pass.All, pass.Options{Weights: quant.FP8})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]quant.Format{}
	for _, w := range after.Weights {
		got[w.Name] = w.Format
	}
	want := map[string]quant.Format{"embd/BF16": quant.BF16, "q/BF16": quant.FP8, "bias": quant.F32, "k/F16": quant.FP8, "wide/Q4_0": quant.Q4_0, "narrow/BF16": quant.BF16, "head/BF16": quant.BF16}
	if !maps.Equal(got, want) {
		t.Errorf("formats are %v, want %v", got, want)
	}
	if n := strings.Count(after.String(), " f8 = Quantize(x)"); n != 1 || strings.Count(after.String(), "Quantize(") != 1 {
		t.Errorf("inputs are not rounded once:\n%s", after)
	}
	if g.String() != before {
		t.Error("the pass has changed the graph it was given")
	}
	for f, named := range map[quant.Format]string{quant.FP8: "FP8:", quant.Q4_0: "Q4_0, which int4 is on a CPU:"} {
		if _, err := pass.WeightQuant(after, pass.Options{Weights: f}); err == nil || !strings.Contains(err.Error(), "no matrix of the model can be quantised to "+named) {
			t.Errorf("weights that are quantised already, to %s: %v", f, err)
		}
	}
}

// TestOutliers: on a device that multiplies integers large numbers are left out once for all matrices that read them, and added to each product.
func TestOutliers(t *testing.T) {
	axis := graph.Axis{Name: "a", Count: 64, Size: 1}
	b := graph.NewBuilder("test", testkit.Lookup, graph.BF16, graph.BF16)
	x := b.Embed("x", b.Weight("embd/BF16", axis, axis), 0)
	sum := b.Add("sum", b.Linear("q", x, b.Weight("q/BF16", axis, axis), b.Vector("bias", axis)), b.Linear("k", x, b.Weight("k/BF16", axis, axis), nil))
	g, err := b.Finish(b.Linear("logits", b.SelectRows("selected", sum), b.Weight("head/BF16", axis, axis), nil))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]int{"llm.int8": {1, 2}, "w8a8": {0, 0}} {
		format, err := pass.OnLoadFormat(name, graph.BF16)
		if err != nil {
			t.Fatal(err)
		}
		after, err := pass.Run(g, pass.All, pass.Options{Weights: format, Inputs: pass.OnLoadInputs(name)})
		if err != nil {
			t.Fatal(err)
		}
		text := after.String()
		if below, added := strings.Count(text, "Quantize(x) {below 6}"), strings.Count(text, ", x) {from 6}"); below != want[0] || added != want[1] || strings.Count(text, "Quantize(") != 1 {
			t.Errorf("%s: rows are rounded without large numbers %d times and these added %d times; %v is right:\n%s", name, below, added, want, text)
		}
	}
}

// TestWeightsInFourBits: rows of a multiple of 128 are quantised, and their inputs are not.
func TestWeightsInFourBits(t *testing.T) {
	axis, odd := graph.Axis{Name: "a", Count: 128, Size: 1}, graph.Axis{Name: "odd", Count: 192, Size: 1}
	b := graph.NewBuilder("test", testkit.Lookup, graph.BF16, graph.BF16)
	x := b.Embed("x", b.Weight("embd/BF16", axis, axis), 0)
	back := b.Linear("narrow", b.Linear("wide", x, b.Weight("wide/BF16", odd, axis), nil), b.Weight("narrow/BF16", axis, odd), nil)
	g, err := b.Finish(b.Linear("logits", b.SelectRows("selected", back), b.Weight("head/BF16", axis, axis), nil))
	if err == nil {
		g, err = pass.Run(g, pass.All, pass.Options{Weights: quant.INT4})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range g.Weights {
		want := quant.BF16
		if w.Name == "wide/BF16" {
			want = quant.INT4
		}
		if w.Format != want {
			t.Errorf("%s is in %s, want %s", w.Name, w.Format, want)
		}
	}
	if strings.Contains(g.String(), "Quantize(") {
		t.Errorf("inputs are rounded:\n%s", g)
	}
}

func TestWeightFormat(t *testing.T) {
	for _, c := range []struct {
		name string
		act  graph.Type
		want quant.Format
	}{{"", graph.F32, quant.Invalid}, {"fp8", graph.F32, quant.FP8}, {"fp8", graph.BF16, quant.FP8}, {"int8", graph.F32, quant.Q8_0}, {"int8", graph.BF16, quant.INT8},
		{"int4", graph.F32, quant.Q4_0}, {"int4", graph.BF16, quant.INT4}, {"w8a8", graph.BF16, quant.INT8}, {"llm.int8", graph.F32, quant.INT8}, {"llm.int8", graph.BF16, quant.INT8}} {
		if f, err := pass.OnLoadFormat(c.name, c.act); f != c.want || err != nil {
			t.Errorf("%q with activations in %s is %v, %v; want %v", c.name, c.act, f, err, c.want)
		}
	}
	if _, err := pass.OnLoadFormat("fp4", graph.F32); err == nil || !strings.Contains(err.Error(), "possible are fp8, int8, int4") {
		t.Errorf("fp4 gives %v", err)
	}
}
