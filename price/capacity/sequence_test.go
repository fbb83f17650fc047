package capacity_test

import (
	"math"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
	"github.com/ridge-llm/ridge/price/capacity"
)

// rows is a layout of so many devices that divide rows by a method.
func rows(devices int, method string) pass.Layout {
	return pass.Layout{Tensor: 1, Pipeline: 1, Data: 1, Sequence: devices, Method: method}
}

// TestSequenceWork: what is priced where devices divide rows is the work that the graph declares, in steps that they divide equally: of full and windowed layers, latent caches, recurrent layers
// and experts that all devices share; and of experts of which a device's share of a token's is no whole number.
func TestSequenceWork(t *testing.T) {
	p, err := price.Device("h200")
	if err != nil {
		t.Fatal(err)
	}
	for _, shape := range []string{"llama-3.1-8b", "gpt-oss-20b", "deepseek-v2-lite", "qwen3.5-4b"} {
		g := build(t, shape, "", p.ActType())
		for _, l := range []pass.Layout{rows(4, pass.Ring), rows(2, pass.Ulysses), {Tensor: 2, Pipeline: 1, Data: 1, Sequence: 2, Expert: 4, Method: pass.Ring}, {Tensor: 4, Pipeline: 1, Data: 1, Expert: 4}} {
			if l.Check(g) != nil {
				continue
			}
			one := part(t, g, l, pass.Rank{})
			m, err := price.New(one, p)
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range []*graph.Step{
				{Seqs: []graph.Seq{{New: 4096}}, Logits: 1}, {Seqs: []graph.Seq{{New: 4096, Past: 8192}, {New: 1024, Past: 64}}, Logits: 4}, {Seqs: []graph.Seq{{New: 1, Past: 1023}, {New: 1, Past: 4095}, {New: 1, Past: 63}, {New: 1, Past: 127}}, Logits: 4},
			} {
				got, want := m.Breakdown(step).Work, one.Work(step)
				for what, of := range map[string][2]int64{"link bytes": {got.LinkBytes, want.LinkBytes}, "operations": {got.FLOPs, want.FLOPs}, "cache reads": {got.CacheRead, want.CacheRead}, "messages": {got.Messages, want.Messages}} {
					if d := math.Abs(float64(of[0] - of[1])); d > 1e-3*float64(of[1]) {
						t.Errorf("%s, %s, %v: %s are priced as %d and declared as %d", shape, l, step.Seqs, what, of[0], of[1])
					}
				}
			}
		}
	}
}

// TestLongPrompt: a prompt of 65,536 tokens takes at least 3.4 times as long on one H200 as on four that divide it, by either method, with as many tokens in a step of each device, and a quarter of the
// cache's bytes on each. Chosen by price is the faster of the two.
func TestLongPrompt(t *testing.T) {
	const tokens = 1 << 16
	p, err := price.Device("h200")
	if err != nil {
		t.Fatal(err)
	}
	g := build(t, "llama-3.1-8b", "", p.ActType())
	run := func(l pass.Layout, chunk int) (*capacity.Setup, float64) {
		lim := capacity.Limits{StepTokens: chunk, Sequences: 8, Context: tokens, Utilization: 0.9}
		s, err := capacity.New(g, p, l, lim, pass.All, pass.Options{})
		if err != nil {
			t.Fatal(err)
		}
		seconds := 0.0
		for past := 0; past < tokens; past += chunk {
			seconds += s.Seconds(&graph.Step{Seqs: []graph.Seq{{New: chunk, Past: past}}, Logits: 1})
		}
		return s, seconds
	}
	one, alone := run(tensor(1), 2048)
	fastest := math.Inf(1)
	for _, method := range []string{pass.Ring, pass.Ulysses} {
		s, seconds := run(rows(4, method), 4*2048)
		t.Logf("%s: %.0f ms on four, %.0f ms on one: %.2f times", method, 1e3*seconds, 1e3*alone, alone/seconds)
		if alone/seconds < 3.4 || alone/seconds > 4 {
			t.Errorf("%s: %.3f s on four devices, %.3f s on one: %.2f times", method, seconds, alone, alone/seconds)
		}
		if got, want := s.CacheBytes(1, tokens), one.CacheBytes(1, tokens)/4; got != want {
			t.Errorf("%s: %d bytes of cache on each, and a quarter is %d", method, got, want)
		}
		fastest = min(fastest, seconds)
	}
	if s, seconds := run(rows(4, ""), 4*2048); seconds > fastest*1.01 {
		t.Errorf("%s is chosen, which takes %.4f s; %.4f s is the least", s.Layout, seconds, fastest)
	}
}
