package pass_test

import (
	"path/filepath"
	"testing"

	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
)

// TestOptionalPasses compares the graphs of passes that only options ask for with golden files.
func TestOptionalPasses(t *testing.T) {
	for _, c := range []struct {
		model, pass string
		run         func(pass.Options) pass.Options
	}{
		{"llama-default", "lora", func(o pass.Options) pass.Options { o.Adapters = pass.Adapters{Slots: 3, Rank: 8}; return o }},
		{"gptoss-yarn", "lora", func(o pass.Options) pass.Options { o.Adapters = pass.Adapters{Slots: 1, Rank: 64}; return o }},
		{"llama-default", "weightquant", func(o pass.Options) pass.Options { o.Weights = quant.FP8; return o }},
	} {
		g, err := pass.Run(small(t, c.model), c.pass, c.run(pass.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		compareGolden(t, filepath.Join("testdata", c.pass, c.model+".txt"), g.String())
	}
}
