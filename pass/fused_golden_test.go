package pass_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/cuda"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
)

// fusedOn are the devices whose fused graphs are golden.
func fusedOn(t *testing.T) map[string]pass.Options {
	t.Helper()
	all := map[string]pass.Options{}
	for _, arch := range []string{"sm_80", "sm_90"} {
		k, ok := cuda.CapabilityOf(arch)
		if !ok {
			t.Fatalf("there are no kernels for %s", arch)
		}
		all["cuda "+arch] = pass.Options{Kernels: k}
	}
	d, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	all["cpu"] = pass.Options{Q8: true, Kernels: compile.Kernels{Device: d}}
	return all
}

// TestFusedGraphs compares what is fused on each device, of two layers of well-known models, with golden files: a node a line, without its
// weights' shapes. UPDATE=1 go test rewrites them.
func TestFusedGraphs(t *testing.T) {
	for device, o := range fusedOn(t) {
		act := graph.BF16
		if device == "cpu" {
			act = graph.F32
		}
		for _, c := range []struct {
			shape   string
			format  quant.Format // of matrices in the file
			weights quant.Format // that they are quantised to on load
		}{
			{"llama-3.2-1b", quant.BF16, quant.Invalid}, {"llama-3.2-1b", quant.Q4_0, quant.Invalid}, {"llama-3.2-1b", quant.BF16, quant.FP8},
			{"qwen3-0.6b", quant.BF16, quant.Invalid}, {"gemma-3-1b", quant.Q8_0, quant.Invalid}, {"gpt-oss-20b", quant.MXFP4, quant.Invalid},
			{"qwen3-30b-a3b", quant.Q4_0, quant.Invalid}, {"gpt2", quant.BF16, quant.Invalid},
		} {
			m, err := model.Shape(c.shape)
			if err != nil {
				t.Fatal(err)
			}
			m.Config.Layers = 2
			g, err := m.Graph(model.Options{Act: act, Cache: graph.F16})
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range g.Weights {
				if w.Out.Len() > 1 && w.In.Len()%c.format.Block() == 0 && !strings.Contains(w.Name, "_inp") {
					w.Format = c.format
				}
			}
			o := o
			o.Weights = c.weights
			if g, err = pass.Run(g, pass.All, o); err != nil {
				t.Fatal(err)
			}
			var s strings.Builder
			for _, n := range g.Nodes {
				made := []string{}
				for _, v := range n.Out {
					made = append(made, v.Name)
				}
				read := []string{}
				for _, v := range n.In {
					read = append(read, v.Name)
				}
				fmt.Fprintf(&s, "%s = %s(%s)", strings.Join(made, ", "), n.Op.Name(), strings.Join(read, ", "))
				if o, ok := n.Op.(*graph.Fused); ok && o.Attrs() != "" {
					fmt.Fprintf(&s, " {%s}", o.Attrs())
				}
				s.WriteByte('\n')
			}
			name := fmt.Sprintf("%s %s", c.shape, c.format)
			if c.weights != quant.Invalid {
				name += " to " + c.weights.String()
			}
			compareGolden(t, filepath.Join("testdata", "fused", device, name+".txt"), s.String())
		}
	}
}

// compareGolden holds text to a golden file.
func compareGolden(t *testing.T, file, text string) {
	t.Helper()
	file = strings.ReplaceAll(file, " ", "-")
	if os.Getenv("UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; UPDATE=1 go test makes it", err)
	}
	if d := cmp.Diff(string(want), text); d != "" {
		t.Errorf("%s differs (-golden +now); UPDATE=1 go test rewrites it:\n%s", file, d)
	}
}
