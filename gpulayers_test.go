package ridge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
)

// TestGPULayers: models whose last layers are on another backend, the reference in place of a GPU, give the answers of the CPU, wherever they are cut: with prefixes found in the cache, with so
// little of it that requests are preempted, with windows, experts and states, and with drafts.
func TestGPULayers(t *testing.T) {
	for _, c := range []struct {
		model   string
		layers  int
		on      []ridge.GPULayers
		options ridge.Options
	}{
		{"llama-default", 2, []ridge.GPULayers{ridge.NoGPULayers, 1, 2, 99}, ridge.Options{KV: ridge.Budget{Bytes: 96 << 10}}},
		{"llama-default", 2, []ridge.GPULayers{1}, ridge.Options{Speculation: ridge.Speculation{Method: "ngram"}}},
		{"gptoss-yarn", 2, []ridge.GPULayers{1}, ridge.Options{}},
		{"qwen3.5-wide", 4, []ridge.GPULayers{1, 3}, ridge.Options{}},
	} {
		dir := withTokenizer(t, "internal/check/testdata/"+c.model)
		c.options.Threads, c.options.Cache, c.options.Context, c.options.Deterministic = 1, "f32", 128, true // else an answer depends on those beside it
		want := answers(t, loadFrom(t, dir, c.options))
		c.options.Backend = "ref"
		for _, n := range c.on {
			c.options.GPULayers = n
			t.Run(fmt.Sprintf("%s %d", c.model, n), func(t *testing.T) {
				m := loadFrom(t, dir, c.options)
				if got := answers(t, m); !slices.EqualFunc(got, want, slices.Equal) {
					t.Errorf("answers are\n%v\nand should be\n%v", got, want)
				}
				parts := fmt.Sprintf("the last %d of %d layers on ref", n, c.layers)
				if n < 0 {
					parts = "cpu ("
				} else if int(n) >= c.layers {
					parts = "ref ("
				}
				if d := m.Device(); !strings.HasPrefix(d, parts) {
					t.Errorf("it runs on %q and should on %q", d, parts)
				}
				if s, ok := m.ExpertCaching(); ok != (c.options.ExpertCache != 0) || ok && (s.Slots == 0 || s.Passes == 0 || s.Hits == 0 || s.Hits > s.Passes) {
					t.Errorf("the cache of experts: %v %+v", ok, s)
				}
				if s := m.PriceStats(); s.Steps == 0 || s.Predicted <= 0 {
					t.Errorf("steps are not priced: %+v", s)
				}
			})
		}
	}
}

// TestCPUExperts: models whose experts, or those of some layers, are on the CPU while the rest is on another backend give the answers of the CPU, also with little of the cache and with drafts.
func TestCPUExperts(t *testing.T) {
	for _, c := range []struct {
		model   string
		layers  ridge.GPULayers
		experts ridge.CPUExperts
		options ridge.Options
		on      string
	}{
		{"gptoss-yarn", 0, ridge.AllCPUExperts, ridge.Options{}, "all 2 layers without their experts on ref"},
		{"gptoss-yarn", 0, 1, ridge.Options{KV: ridge.Budget{Bytes: 96 << 10}}, "all 2 layers without the experts of the first 1 on ref"},
		{"mixtral-window", 1, 2, ridge.Options{}, "the last 1 of 2 layers without their experts on ref"},
		{"qwen3moe-ofall", 99, 99, ridge.Options{Speculation: ridge.Speculation{Method: "ngram"}}, "all 2 layers without their experts on ref"},
		{"qwen3next-dense", 0, ridge.AllCPUExperts, ridge.Options{}, "all 4 layers without their experts on ref"},
		{"qwen3next-dense", 3, 3, ridge.Options{}, "the last 3 of 4 layers without the experts of the first 3 on ref"},
		{"qwen3moe-ofall", 1, 1, ridge.Options{}, "the last 1 of 2 layers on ref"},
		{"qwen3moe-ofall", 0, ridge.AllCPUExperts, ridge.Options{ExpertCache: 64 << 10}, "all 2 layers without their experts but "},
		{"gptoss-yarn", 0, 1, ridge.Options{ExpertCache: ridge.AutoExpertCache}, "all 2 layers without the experts of the first 1"},
	} {
		t.Run(fmt.Sprintf("%s %d %d", c.model, c.layers, c.experts), func(t *testing.T) {
			dir := withTokenizer(t, "internal/check/testdata/"+c.model)
			c.options.Threads, c.options.Cache, c.options.Context, c.options.Deterministic = 1, "f32", 128, true
			cache := c.options.ExpertCache
			c.options.ExpertCache = 0
			want := answers(t, loadFrom(t, dir, c.options))
			c.options.ExpertCache = cache
			c.options.Backend, c.options.GPULayers, c.options.CPUExperts = "ref", c.layers, c.experts
			m := loadFrom(t, dir, c.options)
			if got := answers(t, m); !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("answers are\n%v\nand should be\n%v", got, want)
			}
			if d := m.Device(); !strings.HasPrefix(d, c.on) {
				t.Errorf("it runs on %q and should on %q", d, c.on)
			}
			if s := m.PriceStats(); s.Steps == 0 || s.Predicted <= 0 {
				t.Errorf("steps are not priced: %+v", s)
			}
		})
	}
}

// TestGPULayersRefused: what does not go with layers on two backends is refused by name before anything is loaded.
func TestGPULayersRefused(t *testing.T) {
	for want, o := range map[string]ridge.Options{
		"--gpu-layers) is -3": {Backend: "ref", GPULayers: -3},
		"add --backend cuda":  {GPULayers: 4},
		"the layout tp2 pp1":  {Backend: "ref", GPULayers: 4, Layout: ridge.Layout{Tensor: 2}},
		"EarlyExit":           {Backend: "ref", GPULayers: 4, EarlyExit: ridge.EarlyExit{Layers: []int{1}}},
		"by mtp":              {Backend: "ref", GPULayers: 4, Speculation: ridge.Speculation{Method: "mtp"}},
		"which the CPU has":   {Backend: "ref", GPULayers: 4, Cache: "fp8"},
		"--n-cpu-moe) is -2":  {Backend: "ref", CPUExperts: -2},
		"keeps experts on":    {CPUExperts: 4},
		"leave one out":       {Backend: "ref", CPUExperts: 4, GPULayers: ridge.NoGPULayers},
		"beside one GPU":      {Backend: "ref", CPUExperts: 4, Layout: ridge.Layout{Tensor: 2}},
		"or CPUExperts":       {Backend: "ref", CPUExperts: 4, EarlyExit: ridge.EarlyExit{Layers: []int{1}}},
		"has no experts":      {Backend: "ref", CPUExperts: 4},
		"and none are":        {Backend: "ref", ExpertCache: 1 << 20},
		"of experts are of":   {Backend: "ref", ExpertCache: 1 << 20, CPUExperts: 4, MaxLoRAs: 1},
	} {
		if m, err := ridge.Load("", o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: the error is %v, and should have %q", o.GPULayers, err, want)
			if err == nil {
				m.Close()
			}
		}
	}
}
