package cuda

import (
	"fmt"
	"github.com/ridge-llm/ridge/compile"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// BenchmarkExperts prints what decoding steps of models of experts take, with random weights, and their launches by kind. Only so many of
// their layers are there: they are alike.
func BenchmarkExperts(b *testing.B) {
	const layers = 12
	if _, err := Devices(); err != nil {
		b.Skipf("no GPU to measure: %v", err)
	}
	for _, c := range []struct {
		shape  string
		format quant.Format
	}{{"gpt-oss-20b", quant.MXFP4}, {"qwen3-30b-a3b", quant.Q4_0}, {"mixtral-8x7b", quant.Q4_0}} {
		b.Run(c.shape, func(b *testing.B) {
			m, err := model.Shape(c.shape)
			if err != nil {
				b.Fatal(err)
			}
			fmt.Printf("%s in %s, %d of its %d layers\n", c.shape, c.format, layers, m.Config.Layers)
			m.Config.Layers = layers
			benchmarkExperts(b, m, c.format)
		})
	}
}

// benchmarkExperts has matrices in a format, the head in Q8_0 and the experts' scores in BF16, as ridge convert does.
func benchmarkExperts(b *testing.B, m *model.Model, format quant.Format) {
	d, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	lookup := func(name string) (graph.Stored, bool) {
		f, ok := m.Lookup(name)
		f.Recipe = recipe.Tensor(name)
		switch {
		case name == "output.weight":
			f.Format = quant.Q8_0
		case f.Format != quant.F32 && !strings.Contains(name, "_inp"):
			f.Format = format
		}
		return f, ok
	}
	builder := graph.NewBuilder(m.Arch.Name, lookup, graph.BF16, graph.BF16)
	g, err := builder.Finish(m.Arch.Build(builder, m.Config))
	if err != nil {
		b.Fatal(err)
	}
	if g, err = pass.Run(g, pass.All, pass.Options{Kernels: compile.Kernels{Device: d}}); err != nil {
		b.Fatal(err)
	}
	lim := backend.Limits{Tokens: 64, Seqs: 32, Logits: 32, PageSize: 16, Pages: 32 * 160 / 16, SeqPages: 160 / 16}
	printSteps(b, d, g, lim, [][]load{{{1, 128, 1}}, {{2, 128, 1}}, {{4, 128, 1}}, {{8, 128, 1}}, {{16, 128, 1}}, {{32, 128, 1}}})
}
