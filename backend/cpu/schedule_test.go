package cpu

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// TestSchedule compares how the launches of two layers of each architecture are scheduled with golden files: a line for each run of
// row-block fusion, and "barrier" before those that wait for all workers. UPDATE=1 go test rewrites them.
func TestSchedule(t *testing.T) {
	tiers := gemm.Tiers()
	for _, shape := range []string{"llama-3.2-1b", "qwen3-0.6b", "gemma-3-1b", "gpt-oss-20b", "qwen3-30b-a3b", "gpt2"} {
		t.Run(shape, func(t *testing.T) {
			d := testDevice(tiers[len(tiers)-1], 2) // plain Go, which all machines have
			defer d.Close()
			g, w := smallShape(t, shape)
			g, err := pass.Run(g, pass.All, pass.Options{Q8: true, Kernels: compile.Kernels{Device: d}})
			if err != nil {
				t.Fatal(err)
			}
			steps := testkit.Steps{{3}}
			lim := testkit.LimitsFor(steps, 16)
			p, err := compile.Compile(g, d, w, lim)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if err := p.Run(testkit.Sequence(steps, p.Limits(), 61, false, 1)[0]); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "schedule", shape+".txt")
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(file, []byte(d.scheduleText()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v; UPDATE=1 go test makes it", err)
			}
			if diff := cmp.Diff(string(want), d.scheduleText()); diff != "" {
				t.Errorf("%s differs (-golden +now); UPDATE=1 go test rewrites it:\n%s", file, diff)
			}
		})
	}
}

// scheduleText is the last program's launches as text.
func (d *Device) scheduleText() string {
	var s strings.Builder
	for i := 0; i < len(d.schedule.launches); i += d.schedule.fused[i] {
		if d.schedule.wait[i] {
			s.WriteString("barrier  ")
		} else {
			s.WriteString("         ")
		}
		for j, l := range d.schedule.launches[i : i+d.schedule.fused[i]] {
			if j > 0 {
				s.WriteString(" + ")
			}
			s.WriteString(l.String())
		}
		s.WriteByte('\n')
	}
	return s.String()
}

// smallShape is the graph of an architecture with two layers of small sizes, its matrices in Q4_0, and random weights.
func smallShape(t *testing.T, shape string) (*graph.Graph, testkit.Weights) {
	t.Helper()
	data, err := os.ReadFile("../../model/shapes.json")
	if err != nil {
		t.Fatal(err)
	}
	var table map[string]map[string]any
	if err := json.Unmarshal(data, &table); err != nil {
		t.Fatal(err)
	}
	c := table[shape]
	for key, value := range map[string]any{
		"num_hidden_layers": 2, "n_layer": 2, "vocab_size": 61, "hidden_size": 128, "n_embd": 128, "num_attention_heads": 4, "n_head": 4, "num_key_value_heads": 2,
		"head_dim": 32, "intermediate_size": 256, "moe_intermediate_size": 64, "num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2,
	} {
		if c[key] != nil {
			c[key] = value
		}
	}
	if data, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	m, err := model.FromConfig(shape, data)
	if err != nil {
		t.Fatal(err)
	}
	g, err := m.Graph(model.Options{Act: graph.F32, Cache: graph.F16})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range g.Weights {
		w.Recipe, w.Tensor = recipe.Tensor(w.Name), w.Name
		if w.Out.Len() > 1 && !strings.Contains(w.Name, "_inp") {
			w.Format = quant.Q4_0
		}
	}
	w, err := testkit.RandomWeights(g, 1)
	if err != nil {
		t.Fatal(err)
	}
	return g, w
}

// TestScheduleOf: lists that begin with the same launch keep a schedule each, also when they alternate.
func TestScheduleOf(t *testing.T) {
	a, b, c := &launch{text: "a"}, &launch{text: "b"}, &launch{text: "c"}
	long, short := []backend.Launch{a, b, c}, []backend.Launch{a, c}
	first, second := scheduleOf(long), scheduleOf(short)
	if first == second || len(first.wait) != 3 || len(second.wait) != 2 {
		t.Fatalf("schedules of %d and %d launches", len(first.wait), len(second.wait))
	}
	if scheduleOf(long) != first || scheduleOf(short) != second || scheduleOf([]backend.Launch{a, c}) != second || len(a.schedules) != 2 {
		t.Errorf("a list has another schedule the second time; there are %d", len(a.schedules))
	}
}
