package cuda

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// sequenceModels are the models whose launches are recorded: well-known shapes of two layers and a small vocabulary, with matrices in
// a format and activations in BF16.
var sequenceModels = []struct {
	shape  string
	format quant.Format // that the matrices have in the file
	to     quant.Format // that the pass rounds them to; Invalid: none
	cache  graph.Type
}{
	{"llama-3.2-1b", quant.BF16, quant.Invalid, graph.BF16},
	{"llama-3.2-1b", quant.Q4_0, quant.Invalid, graph.F16},
	{"llama-3.2-1b", quant.BF16, quant.FP8, graph.I8},
	{"qwen3-0.6b", quant.BF16, quant.Invalid, graph.F16},
	{"qwen3-0.6b", quant.BF16, quant.INT4, graph.F8},
	{"gemma-3-1b", quant.Q8_0, quant.Invalid, graph.F16},
	{"gpt-oss-20b", quant.MXFP4, quant.Invalid, graph.BF16},
	{"qwen3-30b-a3b", quant.Q4_0, quant.Invalid, graph.F16},
	{"qwen3-30b-a3b", quant.BF16, quant.Invalid, graph.F16},
	{"gpt2", quant.BF16, quant.Invalid, graph.BF16},
}

// sequenceSteps are steps of decoding and of prompts, with row counts on both sides of what kernels choose by.
var sequenceSteps = []struct{ seqs, tokens int }{{1, 1}, {3, 1}, {8, 1}, {20, 1}, {48, 1}, {1, 2}, {1, 40}, {2, 150}, {1, 1100}}

// sequenceBodies are steps of which hidden states are wanted and no logits.
var sequenceBodies = []struct{ seqs, tokens int }{{1, 1}, {1, 40}}

// TestLaunchSequence compares the kernels that steps launch, in order and with their grids, with golden files. It runs on the stand-in
// for the driver; see TestOnStandIn.
func TestLaunchSequence(t *testing.T) {
	log := os.Getenv("FAKE_LOG")
	if log == "" {
		t.Skip("launches are recorded on the stand-in for the driver")
	}
	for _, arch := range archs {
		for _, m := range sequenceModels {
			name := fmt.Sprintf("%s-%s-sm%d", m.shape, m.format, max(arch, 80))
			if arch == 0 { // the stand-in's own
				name = fmt.Sprintf("%s-%s-sm90", m.shape, m.format)
			}
			if m.to != quant.Invalid {
				name += "-" + m.to.String()
			}
			t.Run(name, func(t *testing.T) {
				d, err := New(Options{Arch: arch})
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				g, err := sequenceGraph(m.shape, m.format, m.cache)
				if err != nil {
					t.Fatal(err)
				}
				after, err := pass.Run(g, pass.All, pass.Options{Weights: m.to, Kernels: compile.Kernels{Device: d}})
				if err != nil {
					t.Fatal(err)
				}
				text, err := sequence(d, after, g, log)
				if err != nil {
					t.Fatal(err)
				}
				golden(t, filepath.Join("testdata", "sequence", name+".txt"), text)
			})
		}
	}
}

// sequenceGraph is a shape's graph with two layers.
func sequenceGraph(shape string, f quant.Format, cache graph.Type) (*graph.Graph, error) {
	data, err := os.ReadFile("../../model/shapes.json")
	if err != nil {
		return nil, err
	}
	var table map[string]map[string]any
	if err := json.Unmarshal(data, &table); err != nil {
		return nil, err
	}
	c := table[shape]
	for key, value := range map[string]any{"num_hidden_layers": 2, "n_layer": 2, "vocab_size": 520, "num_local_experts": 16, "num_experts": 32} {
		if c[key] != nil {
			c[key] = value
		}
	}
	if data, err = json.Marshal(c); err != nil {
		return nil, err
	}
	m, err := model.FromConfig(shape, data)
	if err != nil {
		return nil, err
	}
	g, err := m.Graph(model.Options{Act: graph.BF16, Cache: cache})
	if err != nil {
		return nil, err
	}
	for _, w := range g.Weights {
		w.Recipe = recipe.Tensor(w.Name)
		if w.Out.Len() > 1 && w.In.Len()%f.Block() == 0 && !strings.Contains(w.Name, "_inp") {
			w.Format = f
		}
	}
	return g, nil
}

// sequence compiles a graph and runs the steps; it gives what each launches.
func sequence(d *Device, g, files *graph.Graph, log string) (string, error) {
	lim := backend.Limits{Tokens: 1100, Seqs: 48, Logits: 48, PageSize: 16, SeqPages: 70, Pages: 48 * 70}
	p, err := compile.Compile(g, d, zeros{files}, lim)
	if err != nil {
		return "", err
	}
	defer p.Close()
	var s strings.Builder
	all := append(sequenceSteps[:1:1], sequenceSteps...)
	for i, step := range append(all, sequenceBodies...) {
		list := make([]int, step.seqs)
		for q := range list {
			list[q] = step.tokens
		}
		b := testkit.Sequence(testkit.Steps{list}, lim, 500, false, 1)[0]
		if err := os.Truncate(log, 0); err != nil {
			return "", err
		}
		run, what := p.Run, ""
		if i >= len(all) {
			run, what = p.RunBody, ", hidden states alone"
		}
		if err := run(b); err != nil {
			return "", err
		}
		if i == 0 {
			continue // the first step may do what compiling left
		}
		launches, err := os.ReadFile(log)
		if err != nil {
			return "", err
		}
		if len(launches) == 0 { // recorded before, with the other of the two slots
			return "", fmt.Errorf("step %d launches nothing", i)
		}
		fmt.Fprintf(&s, "# %d sequences of %d new tokens%s\n%s", step.seqs, step.tokens, what, launches)
	}
	return s.String(), nil
}

// golden holds text to a golden file; UPDATE=1 rewrites it.
func golden(t *testing.T, file, text string) {
	t.Helper()
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
	if string(want) == text {
		return
	}
	a, b := strings.Split(string(want), "\n"), strings.Split(text, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Errorf("%s differs from line %d on: golden %q, now %q; UPDATE=1 go test rewrites it", file, i+1, a[i], b[i])
			return
		}
	}
	t.Errorf("%s has %d lines and there are %d now; UPDATE=1 go test rewrites it", file, len(a), len(b))
}
