package ridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/quantize/imatrix"
)

// answers are greedy continuations of several prompts, two of which begin alike, computed side by side.
func answers(t *testing.T, m *ridge.Model, use ...ridge.UseAdapter) [][]int32 {
	t.Helper()
	all := make([][]int32, 6)
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() {
			prompt := make([]int32, 20+5*i)
			for k := range prompt {
				prompt[k] = int32(3 + (k*7+(i/2)*11)%80)
			}
			p := ridge.Greedy()
			p.MaxTokens, p.IgnoreEnd, p.Adapters = 24, true, use
			pieces, err := m.GenerateMany(context.Background(), prompt, []ridge.Params{p})
			if err != nil {
				t.Errorf("request %d: %v", i, err)
				return
			}
			for piece, err := range pieces[0] {
				if err != nil {
					t.Errorf("request %d: %v", i, err)
					return
				}
				if piece.Token != nil {
					all[i] = append(all[i], piece.Token.Token)
				}
			}
		})
	}
	wait.Wait()
	return all
}

// TestLayout: models give the answers that they give on one device when several have parts of them: full layers and windows, experts, recurrent layers with states that
// are kept, with so little cache that requests are preempted, swapped and computed again, with drafts.
func TestLayout(t *testing.T) {
	for _, c := range []struct {
		model   string
		layouts []ridge.Layout
		options ridge.Options
	}{
		{"llama-default", []ridge.Layout{{Tensor: 2}, {Pipeline: 2}, {Tensor: 2, Pipeline: 2}}, ridge.Options{KV: ridge.Budget{Bytes: 96 << 10}}},
		{"llama-default", []ridge.Layout{{Tensor: 2, Pipeline: 2}}, ridge.Options{KV: ridge.Budget{Bytes: 96 << 10}, Swap: 1 << 20}},
		{"llama-default", []ridge.Layout{{Tensor: 2}}, ridge.Options{Speculation: ridge.Speculation{Method: "ngram"}}},
		{"gptoss-yarn", []ridge.Layout{{Tensor: 2, Expert: 2}, {Tensor: 4, Expert: 2, Pipeline: 2}}, ridge.Options{}},
		{"qwen3.5-wide", []ridge.Layout{{Tensor: 2}, {Pipeline: 2}, {Sequence: 2}}, ridge.Options{}},
		{"llama-default", []ridge.Layout{{Sequence: 2, SequenceMethod: "ring"}, {Sequence: 2, SequenceMethod: "ulysses"}, {Tensor: 2, Sequence: 2}}, ridge.Options{KV: ridge.Budget{Bytes: 96 << 10}, Swap: 1 << 20}},
		{"llama-default", []ridge.Layout{{Sequence: 2, SequenceMethod: "ring"}, {Sequence: 2, SequenceMethod: "ulysses"}}, ridge.Options{Speculation: ridge.Speculation{Method: "ngram"}}},
		{"gptoss-yarn", []ridge.Layout{{Tensor: 2, Pipeline: 2, Expert: 4, Sequence: 2}, {Sequence: 3, SequenceMethod: "ring"}}, ridge.Options{}},
		{"gptoss-yarn", []ridge.Layout{{Data: 2, Expert: 2}, {Tensor: 2, Data: 2, Expert: ridge.AllDevices}, {Data: 4, Pipeline: 2}}, ridge.Options{}},
		{"gptoss-yarn", []ridge.Layout{{Data: 2}}, ridge.Options{KV: ridge.Budget{Bytes: 128 << 10}, Speculation: ridge.Speculation{Method: "ngram"}}},
		{"jamba-bias", []ridge.Layout{{Data: 2}, {Data: 4}}, ridge.Options{}},
		{"gptoss-yarn", []ridge.Layout{{Data: 2}, {Data: 2, Tensor: 2}}, ridge.Options{KV: ridge.Budget{Bytes: 128 << 10}, Swap: 1 << 20}},
		{"jamba-bias", []ridge.Layout{{Data: 2}}, ridge.Options{KV: ridge.Budget{Bytes: 124 << 10}, Swap: 1 << 20}},
	} {
		dir := withTokenizer(t, "internal/check/testdata/"+c.model)
		c.options.Threads, c.options.Cache, c.options.Context, c.options.Deterministic = 1, "f32", 128, true // else an answer depends on those beside it
		want := answers(t, loadFrom(t, dir, c.options))
		states := c.model == "jamba-bias" // whether there is too little room for all depends on when requests come, and so whether something is swapped
		for _, l := range c.layouts {
			c.options.Layout = l
			t.Run(fmt.Sprintf("%s %+v", c.model, l), func(t *testing.T) {
				m := loadFrom(t, dir, c.options)
				if got := answers(t, m); !slices.EqualFunc(got, want, slices.Equal) {
					t.Errorf("answers are\n%v\nand should be\n%v", got, want)
				}
				if s := m.Stats(); c.options.Swap > 0 && l.Data > 1 && (s.Swaps == 0 && !states || s.SwappedIn != s.SwappedOut || s.HostUsed != 0) {
					t.Errorf("%d requests were swapped out; %d pages went and %d came back, and %d are still in host memory", s.Swaps, s.SwappedOut, s.SwappedIn, s.HostUsed)
				}
			})
		}
	}
}

// withTokenizer is a folder with a model's files and a tokenizer, which the small models come without.
func withTokenizer(t *testing.T, dir string) string { return withTokens(t, dir, 128) }

// withTokens is withTokenizer of so many tokens.
func withTokens(t *testing.T, dir string, n int) string {
	t.Helper()
	vocab := map[string]int{}
	for i := range n {
		vocab[fmt.Sprintf("t%d", i)] = i
	}
	text, err := json.Marshal(map[string]any{
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false},
		"decoder":       map[string]any{"type": "ByteLevel"},
	})
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := errors.Join(os.CopyFS(to, os.DirFS(dir)), os.WriteFile(filepath.Join(to, "tokenizer.json"), text, 0o600)); err != nil {
		t.Fatal(err)
	}
	return to
}

// loadFrom loads a model for a test.
func loadFrom(t *testing.T, dir string, o ridge.Options) *ridge.Model {
	t.Helper()
	if o.Threads == 0 {
		o.Threads = 1 // on a busy machine threads of small models mostly wait for each other
	}
	m, err := ridge.Load(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// TestLayoutRefused: what does not go with several devices is refused by name before anything is loaded.
func TestLayoutRefused(t *testing.T) {
	two := ridge.Layout{Tensor: 2}
	for want, o := range map[string]ridge.Options{
		"--tp 65; 1 to 64 is possible":                 {Layout: ridge.Layout{Tensor: 65}},
		"--pp -1; 1 to 64 is possible":                 {Layout: ridge.Layout{Pipeline: -1}},
		"--ep 2 is more than --tp 1":                   {Layout: ridge.Layout{Expert: 2}},
		"--ep 2 is more than --tp 1: ":                 {Layout: ridge.Layout{Expert: 2, Sequence: 4}},
		"--dp 2 and --ep 4: the experts are divided":   {Layout: ridge.Layout{Data: 2, Expert: 4}},
		"--ep -2; 1 to 64 is possible":                 {Layout: ridge.Layout{Expert: -2}},
		"--dp 2 and --sp 2: devices have sequences":    {Layout: ridge.Layout{Data: 2, Sequence: 2}},
		"divides experts, and ":                        {Layout: ridge.Layout{Data: 2}},
		"leave KVOffload (--kv-host-memory, ":          {Layout: ridge.Layout{Data: 2}, KVOffload: ridge.KVOffload{HostMemory: 1 << 20}},
		"--sp 65; 1 to 64 is possible":                 {Layout: ridge.Layout{Sequence: 65}},
		"--sp-method \"star\"; ulysses and ring":       {Layout: ridge.Layout{Sequence: 2, SequenceMethod: "star"}},
		"--sp-method ring is for --sp 2 or more":       {Layout: ridge.Layout{SequenceMethod: "ring"}},
		"take --sp-method ring":                        {Layout: ridge.Layout{Sequence: 64, SequenceMethod: "ulysses"}},
		"has 128 devices; 64 at most":                  {Layout: ridge.Layout{Tensor: 16, Pipeline: 8}},
		"Speculation by layerskip and the layout tp2":  {Layout: two, Speculation: ridge.Speculation{Method: "layerskip", ExitLayer: 1}},
		"EarlyExit (--early-exit) and the layout tp2":  {Layout: two, EarlyExit: ridge.EarlyExit{Layers: []int{1}, Threshold: 0.5}},
		"cannot be divided equally among 64 devices":   {Layout: ridge.Layout{Tensor: 64}},
		"64 pipeline stages for the":                   {Layout: ridge.Layout{Pipeline: 64}},
		"the layout tp2 pp1 dp1 ep2 divides experts, ": {Layout: ridge.Layout{Tensor: 2, Expert: 2}},
	} {
		m, err := ridge.Load("", o)
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; wanted %q", o.Layout, err, want)
		}
	}
}

// TestLayoutAdapters: several devices answer with adapters and embed texts as one does.
func TestLayoutAdapters(t *testing.T) {
	path := modelFile(t, "F32")
	var want string
	var vector []float32
	for _, l := range []ridge.Layout{{}, {Tensor: 2, Pipeline: 2}} {
		m := loadFrom(t, path, ridge.Options{Layout: l, MaxLoRAs: 1, Cache: "f32"})
		if _, err := m.AddAdapterDir("adapters"); err != nil {
			t.Fatal(err)
		}
		p := ridge.Greedy()
		p.MaxTokens, p.Adapters = 24, []ridge.UseAdapter{{Name: "pirate", Scale: 1}}
		text, _ := generate(t, m, "Once upon a time", p)
		e, err := m.Embed(context.Background(), "Once upon a time")
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want, vector = text, e.Vector
		}
		if text != want {
			t.Errorf("%+v answers %q and should answer %q", l, text, want)
		}
		if same := dot(e.Vector, vector); same < 0.9999 {
			t.Errorf("%+v embeds a text with a cosine of %g to one device's", l, same)
		}
	}
}

// TestDataParallel: devices with requests of their own embed texts, say how likely prompts are, and draw several answers to a prompt as one device does.
func TestDataParallel(t *testing.T) {
	dir := withTokenizer(t, "internal/check/testdata/gptoss-yarn")
	type result struct {
		vectors [][]float32
		likely  []float64
		drawn   [][]int32
	}
	of := func(l ridge.Layout) (r result) {
		m := loadFrom(t, dir, ridge.Options{Layout: l, Cache: "f32", Context: 128, Deterministic: true})
		prompt := func(n int) (ids []int32) {
			for i := range n {
				ids = append(ids, int32(3+(i*7+n*11)%80))
			}
			return ids
		}
		r.vectors = make([][]float32, 5)
		r.drawn = make([][]int32, 6)
		var wait sync.WaitGroup
		for i := range r.vectors {
			wait.Go(func() {
				e, err := m.EmbedTokens(context.Background(), prompt(9+8*i), ridge.Params{})
				if err != nil {
					t.Error(err)
				}
				r.vectors[i] = e.Vector
			})
		}
		for i := range 2 {
			wait.Go(func() {
				all := make([]ridge.Params, 3)
				for k := range all {
					all[k] = ridge.Greedy()
					all[k].Sampling.Temperature, all[k].Sampling.Seed, all[k].MaxTokens, all[k].IgnoreEnd = 1, uint64(1+i+10*k), 20, true
				}
				pieces, err := m.GenerateMany(context.Background(), prompt(33+i), all)
				if err != nil {
					t.Error(err)
					return
				}
				for k, answer := range pieces {
					for piece, err := range answer {
						if err != nil {
							t.Error(err)
						} else if piece.Token != nil {
							r.drawn[3*i+k] = append(r.drawn[3*i+k], piece.Token.Token)
						}
					}
				}
			})
		}
		wait.Wait()
		p := ridge.Greedy()
		p.MaxTokens, p.PromptLogprobs = 1, true
		pieces, err := m.GenerateMany(context.Background(), prompt(50), []ridge.Params{p})
		if err != nil {
			t.Fatal(err)
		}
		for piece, err := range pieces[0] {
			if err != nil {
				t.Fatal(err)
			}
			for _, token := range piece.Prompt {
				r.likely = append(r.likely, float64(token.Logprob))
			}
		}
		return r
	}
	want, got := of(ridge.Layout{}), of(ridge.Layout{Data: 2, Tensor: 2})
	if !slices.EqualFunc(got.drawn, want.drawn, slices.Equal) {
		t.Errorf("answers are\n%v\nand should be\n%v", got.drawn, want.drawn)
	}
	if len(want.likely) != 50 || len(got.likely) != 50 {
		t.Fatalf("%d and %d tokens of the prompt have a log-probability", len(want.likely), len(got.likely))
	}
	for i := 1; i < 50; i++ { // the first has none
		if off := math.Abs(got.likely[i] - want.likely[i]); !(off < 1e-3) {
			t.Errorf("token %d of the prompt has %g and should have %g", i, got.likely[i], want.likely[i])
		}
	}
	for i := range want.vectors {
		if same := dot(got.vectors[i], want.vectors[i]); !(same > 0.9999) {
			t.Errorf("text %d is embedded otherwise: %g", i, same)
		}
	}
}

// TestExpertLoad: experts that are placed by load, the hot ones on two devices, answer as in order, in one process and over ranks; what cannot be placed so is refused.
func TestExpertLoad(t *testing.T) {
	dir, file := withTokenizer(t, "internal/check/testdata/gptoss-yarn"), filepath.Join(t.TempDir(), "loads.gguf")
	loads := imatrix.Matrix{Entries: map[string]imatrix.Entry{
		"blk.0.ffn_gate_exps.weight": {Squares: make([]float32, 4*32), Counts: []float32{3, 70, 40, 5}},
		"blk.1.ffn_gate_exps.weight": {Squares: make([]float32, 4*32), Counts: []float32{30, 1, 1, 90}},
		"blk.1.attn_q.weight":        {Squares: make([]float32, 32), Counts: []float32{9}},
	}}
	if err := loads.Write(file); err != nil {
		t.Fatal(err)
	}
	o := ridge.Options{Cache: "f32", Context: 128, Deterministic: true, Threads: 1}
	want := answers(t, loadFrom(t, dir, o))
	o.Layout = ridge.Layout{Data: 2, ExpertLoad: file, RedundantExperts: 1}
	if got := answers(t, loadFrom(t, dir, o)); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("answers are\n%v\nand should be\n%v", got, want)
	}
	m, _, err := loadRanks(t, dir, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := answers(t, m); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("ranks answer\n%v\nand should answer\n%v", got, want)
	}
	if _, _, err := loadRanks(t, dir, o, func(_ int, o *ridge.Options) { o.Layout.RedundantExperts = 0 }); err == nil || !strings.Contains(err.Error(), "placement of experts") {
		t.Errorf("ranks with experts in different places: %v", err)
	}
	delete(loads.Entries, "blk.0.ffn_gate_exps.weight")
	loads.Entries["blk.1.ffn_gate_exps.weight"] = imatrix.Entry{Squares: make([]float32, 3*32), Counts: []float32{30, 1, 1}}
	other := filepath.Join(t.TempDir(), "other.gguf")
	delete(loads.Entries, "blk.0.ffn_gate_exps.weight")
	if err := loads.Write(other); err != nil {
		t.Fatal(err)
	}
	for want, l := range map[string]ridge.Layout{
		"counts of 3 experts of blk.1.ffn_gate_exps.weight, which has 4": {Data: 2, ExpertLoad: other},
		"4 experts beside the 2 that each of 2 devices has of 4":         {Data: 2, RedundantExperts: 4},
		"--redundant-experts -1":                                         {Data: 2, RedundantExperts: -1},
		"of which there are more than --tp":                              {Tensor: 2, Expert: 2, RedundantExperts: 1},
		"--expert-load): imatrix: open /nowhere":                         {Data: 2, ExpertLoad: "/nowhere"},
	} {
		o.Layout = l
		m, err := ridge.Load(dir, o)
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; wanted %q", l, err, want)
		}
	}
}

// TestLayoutCacheEvents: of devices with requests of their own a block is told to be cached once, and to be gone when the last device has evicted it.
func TestLayoutCacheEvents(t *testing.T) {
	var mu sync.Mutex
	cached, stored, removed := map[uint64]bool{}, 0, 0
	told := func(e ridge.CacheEvent) {
		mu.Lock()
		defer mu.Unlock()
		switch e.Kind {
		case ridge.BlockStored:
			if cached[e.Hash] || e.Before != 0 && !cached[e.Before] {
				t.Errorf("a block is told to be cached that was (%t), or behind one that is not", cached[e.Hash])
			}
			cached[e.Hash] = true
			stored++
		case ridge.BlockRemoved:
			if !cached[e.Hash] {
				t.Error("a block is told to be gone that was not cached")
			}
			delete(cached, e.Hash)
			removed++
		case ridge.CacheCleared:
			clear(cached)
		}
	}
	m := loadFrom(t, withTokenizer(t, "internal/check/testdata/gptoss-yarn"), ridge.Options{
		Layout: ridge.Layout{Data: 2}, Cache: "f32", Context: 128, KV: ridge.Budget{Bytes: 260 << 10}, CacheEvents: told,
	})
	for round := range 12 {
		var wait sync.WaitGroup
		for range 4 { // alike, on both devices
			wait.Go(func() {
				prompt := make([]int32, 90)
				for k := range prompt {
					prompt[k] = int32(3 + (k*7+round%8*11)%80)
				}
				p := ridge.Greedy()
				p.MaxTokens, p.IgnoreEnd = 4, true
				pieces, err := m.GenerateMany(context.Background(), prompt, []ridge.Params{p})
				if err != nil {
					t.Error(err)
					return
				}
				for _, err := range pieces[0] {
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
	}
	mu.Lock()
	defer mu.Unlock()
	if stored == 0 || removed == 0 {
		t.Errorf("%d blocks were cached and %d evicted: this shows nothing", stored, removed)
	}
}
