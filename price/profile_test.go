package price_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/price"
)

// TestDevices: the table is what Validate accepts, has every device that planning promises, and no rate with sparsity:
// a vendor's bf16 is twice its tf32 or equal to it, never less, and int8 at most four times bf16.
func TestDevices(t *testing.T) {
	names := map[string]bool{}
	for _, p := range price.Devices() {
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
		if names[p.Name] {
			t.Errorf("two devices are called %s", p.Name)
		}
		names[p.Name] = true
		if p.FLOPs[price.BF16] < p.FLOPs[price.TF32] || p.FLOPs[price.Int8] > 4*p.FLOPs[price.BF16] {
			t.Errorf("%s: the rates do not fit together: %v", p.Name, p.FLOPs)
		}
	}
	for _, name := range strings.Fields("a100-40gb a100-80gb h100-sxm h100-pcie h200 b200 l40s l4 rtx4090 rtx5090 mi300x zen4 zen5 sapphire-rapids graviton4 m1-ultra") {
		if !names[name] {
			t.Errorf("there is no %s", name)
		}
	}
	if _, err := price.Device("h300"); err == nil || !strings.Contains(err.Error(), "h200") {
		t.Errorf("an unknown device is refused with %v", err)
	}
}

// TestRefused: absurd profiles are refused with the field's name.
func TestRefused(t *testing.T) {
	good := func() *price.Profile {
		return &price.Profile{
			Name: "mine", Source: "made up", FLOPs: map[price.Number]float64{price.F32: 1e12},
			Levels: []price.Level{{Name: "L2", Bytes: 1 << 20}, {Name: "DRAM", Bytes: 1 << 34, Rate: 1e11}},
		}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(p *price.Profile){
		"name":                       func(p *price.Profile) { p.Name = "" },
		"source":                     func(p *price.Profile) { p.Source = "" },
		"flops_per_second.f32":       func(p *price.Profile) { delete(p.FLOPs, price.F32) },
		"flops_per_second.bf16":      func(p *price.Profile) { p.FLOPs[price.BF16] = math.NaN() },
		"flops_per_second is given":  func(p *price.Profile) { p.FLOPs["f64"] = 1e12 },
		"levels is":                  func(p *price.Profile) { p.Levels = nil },
		"levels[1].bytes_per_second": func(p *price.Profile) { p.Levels[1].Rate = 0 },
		"levels[0].bytes_per_second": func(p *price.Profile) { p.Levels[0].Rate = math.Inf(1) },
		"levels[1].bytes is":         func(p *price.Profile) { p.Levels[1].Bytes = 1 << 20 },
		"launch_seconds":             func(p *price.Profile) { p.Launch = -1 },
		"link_bytes_per_second":      func(p *price.Profile) { p.Link = 3 },
		"row_tiles":                  func(p *price.Profile) { p.RowTiles = []int{8, 8} },
		"attention_number":           func(p *price.Profile) { p.Attention = price.FP8 },
		"act is":                     func(p *price.Profile) { p.Act = "i8" },
		`fit.linear[""]`:             func(p *price.Profile) { p.Fit = &price.Fit{} },
		`fit.linear["Q4_0"].points`:  func(p *price.Profile) { p.Fit = price.Roof(); p.Fit.Linear["Q4_0"] = price.Curve{} },
		"coefficients of Attention":  func(p *price.Profile) { p.Fit = price.Roof(); p.Fit.Attention.Compute = math.NaN() },
		`fit.linear[""].points[1]`:   func(p *price.Profile) { p.Fit = price.Roof(); spoilPoints(p.Fit) },
		"fit.step_seconds":           func(p *price.Profile) { p.Fit = price.Roof(); p.Fit.Step = math.Inf(1) },
		"fit.greedy_logit_seconds":   func(p *price.Profile) { p.Fit = price.Roof(); p.Fit.Greedy = -1 },
		"fit.replay_launch":          func(p *price.Profile) { p.Fit = price.Roof(); p.Fit.Replay = math.NaN() },
	} {
		p := good()
		spoil(p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("a profile with a bad %s: %v", field, err)
		}
	}
}

func spoilPoints(f *price.Fit) {
	f.Linear[""] = price.Curve{Points: []price.Point{{Rows: 8, Small: 1, Large: 1}, {Rows: 4, Small: 1, Large: 1}}}
}

// TestJSON: a profile is the same after a trip through a file, and a misspelt field is found.
func TestJSON(t *testing.T) {
	p := *device(t, "mi300x")
	p.Fit = price.Typical(&p)
	data, err := json.Marshal(&p)
	if err != nil {
		t.Fatal(err)
	}
	back, err := price.ParseProfile(data)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := json.Marshal(back)
	if string(again) != string(data) {
		t.Errorf("%s\ncame back as\n%s", data, again)
	}
	if _, err := price.ParseProfile([]byte(`{"name": "x", "flop_per_second": {}}`)); err == nil || !strings.Contains(err.Error(), "flop_per_second") {
		t.Errorf("a misspelt field: %v", err)
	}
}

// TestNotJSON: what is no profile is refused in words, without the names of Go's types.
func TestNotJSON(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "this one is empty",
		"[]":                            "this one is a JSON array",
		"oops":                          "invalid character",
		`{"launch_seconds": "fast"}`:    "launch_seconds is a JSON string; it must be a number",
		`{"levels": [{"bytes": 1e99}]}`: "levels.bytes is a JSON number 1e99; it must be a whole number",
		`{"levels": 3}`:                 "levels is a JSON number; it must be a list",
		`{"flops_per_second": []}`:      "flops_per_second is a JSON array; it must be an object",
		`{"name": 7}`:                   "name is a JSON number; it must be a text",
		`{"q8": 1}`:                     "q8 is a JSON number; it must be true or false",
	} {
		if _, err := price.ParseProfile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestCollectives: a ring over two devices moves the buffer once each way; without a link there is a sentence.
func TestCollectives(t *testing.T) {
	p := *device(t, "h100-sxm")
	p.LinkLag = 0
	b := graph.NewBuilder("test", testkit.Lookup, graph.F32, graph.F32)
	wide, part := graph.Axis{Name: "hidden", Count: 1 << 20, Size: 1}, graph.Axis{Name: "vocab", Count: 1 << 19, Size: 1, Shards: 2}
	x := b.Embed("x", b.Weight("embd", graph.Axis{Name: "a", Count: 64, Size: 1}, wide), 0)
	logits := b.Linear("logits", b.SelectRows("selected", x), b.Weight("head", part, wide), nil)
	g, err := b.Finish(b.Emit("all", graph.AllGather{Ranks: 2, Axis: graph.Axis{Name: "vocab", Count: 1 << 20, Size: 1}}, []*graph.Value{logits})[0])
	if err != nil {
		t.Fatal(err)
	}
	step := &graph.Step{Seqs: []graph.Seq{{New: 64}}, Logits: 64}
	priced, err := price.Price(g, step, &p)
	if err != nil {
		t.Fatal(err)
	}
	lines := priced.Lines
	if got, want := lines[len(lines)-1].Seconds, float64(64<<20*4)/2/p.Link; math.Abs(got-want) > 1e-9*want {
		t.Errorf("an all-gather takes %g s; %g s is right", got, want)
	}
	p.Link = 0
	if _, err := price.Price(g, step, &p); err == nil || !strings.Contains(err.Error(), "link_bytes_per_second") {
		t.Errorf("without a link: %v", err)
	}
}

// TestSwap: over the link where there is one, and else within the memory, three bytes for one.
func TestSwap(t *testing.T) {
	host := &price.Profile{Levels: []price.Level{{Name: "DRAM", Bytes: 1 << 30, Rate: 30e9}}}
	gpu := &price.Profile{Levels: host.Levels, Host: 50e9}
	if a, b := host.Swap(1e9), gpu.Swap(1e9); math.Abs(a-0.1) > 1e-9 || math.Abs(b-0.02) > 1e-9 {
		t.Errorf("%g and %g s for a gigabyte; 0.1 and 0.02 are right", a, b)
	}
}
