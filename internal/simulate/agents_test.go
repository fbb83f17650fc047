package simulate

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit/agents"
	"github.com/ridge-llm/ridge/internal/trace"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
)

// byPrice is an engine's predictor.
type byPrice struct{ *price.Model }

func (p byPrice) Predict(s sched.Shape) float64 { return p.PredictShape(price.Shape(s)) }

func (p byPrice) Observe(s *graph.Step, _ float64) float64 { return p.Model.Predict(s) }

// qwenLayers is Qwen3.5-0.8B with attention in every n-th layer.
func qwenLayers(t *testing.T, n int) *graph.Graph {
	t.Helper()
	data, err := os.ReadFile("../../model/shapes.json")
	if err != nil {
		t.Fatal(err)
	}
	var shapes map[string]map[string]any
	if err := json.Unmarshal(data, &shapes); err != nil {
		t.Fatal(err)
	}
	config := shapes["qwen3.5-0.8b"]
	config["full_attention_interval"] = n
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.FromConfig("qwen3.5-0.8b", text)
	if err != nil {
		t.Fatal(err)
	}
	g, err := m.Graph(model.Options{Act: graph.BF16, Cache: graph.F16})
	if err == nil {
		g, err = pass.Run(g, pass.All, pass.Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// serveAgents is what serving conversations on an H200 comes to, with so many bytes for the cache.
func serveAgents(t *testing.T, g *graph.Graph, all []agents.Turn, memory int64) *Result {
	t.Helper()
	h200, err := price.Device("h200")
	if err != nil {
		t.Fatal(err)
	}
	priced, err := price.New(g, h200)
	if err != nil {
		t.Fatal(err)
	}
	lim := backend.Limits{Tokens: 2048, Seqs: 8, Logits: 8, PageSize: 16, SeqPages: 1 << 13}
	p := backend.NewPaging(g, &lim)
	lim.Pages = p.Fit(memory, backend.PrefixCache)
	p.Share(&lim, backend.PrefixCache)
	lim.StatePages = p.StatePages()
	tr := &trace.Trace{Name: "agents"}
	for _, turn := range all {
		tr.Requests = append(tr.Requests, trace.Request{Input: len(turn.Prompt) - turn.Answer, Output: turn.Answer})
	}
	o := Options{Trace: tr, Concurrency: 8, Limits: lim, Cost: priced.Predict, Name: "agents", Engine: engine.Options{Policy: "fcfs", Index: "radix", Predictor: byPrice{priced}}}
	r, err := serve(o, small, func(i int) engine.Request {
		turn := all[i]
		prompt := len(turn.Prompt) - turn.Answer
		var said []engine.StepOutput
		for _, token := range turn.Prompt[prompt:] {
			said = append(said, engine.StepOutput{Tokens: []int32{token}})
		}
		said[len(said)-1].Reason = sample.ReasonLength
		return engine.Request{Prompt: turn.Prompt[:prompt], MaxTokens: turn.Answer, Params: greedy(), Forced: said}
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Report.Completed != len(all) {
		t.Fatalf("%d of %d requests were answered: %v", r.Report.Completed, len(all), r.Report.Errors)
	}
	return r
}

// TestAgents: conversations of agents find at least 95 % of the tokens in a hybrid's prefix cache that they find with attention in all layers and the same memory, and
// wait at most 1.2 times as long for their first token.
func TestAgents(t *testing.T) {
	cases := []struct {
		conversations int
		memory        int64
	}{{20, 3 << 30}, {6, 3 << 30}, {20, 6 << 30}, {60, 6 << 30}, {60, 12 << 30}}
	if testing.Short() {
		cases = cases[:1]
	}
	hybrid, pure := qwenLayers(t, 4), qwenLayers(t, 1)
	for _, c := range cases {
		all := agents.Turns(c.conversations, 12, small)
		a, b := serveAgents(t, hybrid, all, c.memory), serveAgents(t, pure, all, c.memory)
		t.Logf("%d conversations, %d GB: a hybrid found %d of %d tokens, TTFT %.1f ms in the mean, %.1f median, %.1f p95; attention alone %d, %.1f, %.1f, %.1f; %d states kept, %d of them in pages",
			c.conversations, c.memory>>30, a.Report.Cached, a.Report.Input, a.Report.TTFT.Mean, a.Report.TTFT.P50, a.Report.TTFT.P95,
			b.Report.Cached, b.Report.TTFT.Mean, b.Report.TTFT.P50, b.Report.TTFT.P95, a.Stats.StatesKept, a.Stats.StatesStored)
		if float64(a.Report.Cached) < 0.95*float64(b.Report.Cached) {
			t.Errorf("%d conversations, %d GB: the hybrid found %d tokens, and attention alone %d", c.conversations, c.memory>>30, a.Report.Cached, b.Report.Cached)
		}
		if a.Report.TTFT.Mean > 1.2*b.Report.TTFT.Mean || a.Report.TTFT.P50 > 1.2*b.Report.TTFT.P50 {
			t.Errorf("%d conversations, %d GB: the hybrid's first token takes %.1f ms, %.1f in the median, and with attention alone %.1f, %.1f",
				c.conversations, c.memory>>30, a.Report.TTFT.Mean, a.Report.TTFT.P50, b.Report.TTFT.Mean, b.Report.TTFT.P50)
		}
	}
}
