package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/cuda"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/diffusion"
	"github.com/ridge-llm/ridge/engine/grammar"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
)

// diffusionLimits has room for three requests, whose blocks' logits come to more than a step has.
var diffusionLimits = backend.Limits{Tokens: 128, Seqs: 3, Logits: 40, PageSize: 16, SeqPages: 4, Pages: 12}

// diffusionEngine is an engine on a small masked diffusion model.
func diffusionEngine(t *testing.T, name string, dev backend.Device, lim backend.Limits) *engine.Engine {
	t.Helper()
	b, err := modeldir.Open(filepath.Join("../internal/check/testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
	if err != nil {
		t.Fatal(err)
	}
	prog, err := compile.Compile(g, dev, b, lim)
	if err != nil {
		t.Fatal(err)
	}
	d := b.Model.Config.Diffusion
	e, err := engine.New(prog, engine.Options{Diffusion: &engine.Diffusion{Mask: d.Mask, Shift: d.Shift, Block: d.Block}, ITLRatio: engine.DefaultITLRatio})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(); dev.Close(); b.Close() })
	return e
}

// denoised is what upstream's way of generating gave, one token after the other in the text.
type denoised struct {
	Prompt []int32 `json:"prompt_ids"`
	Cases  []struct {
		Steps     int
		Block     int `json:"block_length"`
		Algorithm diffusion.Algorithm
		Threshold float64
		Exact     bool
		CFGScale  float64 `json:"cfg_scale"`
		IDs       []int32
		Passes    int
	}
}

func readDenoised(t *testing.T, name string) (d denoised) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../internal/check/testdata", name, "denoised.json"))
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// found is the answer to one request, and its end.
func found(e *engine.Engine, r engine.Request) (ids []int32, end engine.Final, err error) {
	done := make(chan engine.Final, 1)
	r.Emit = func(c sample.Choice) bool { ids = append(ids, c.Token); return false }
	r.Done = func(f engine.Final) { done <- f }
	if err := e.Submit(context.Background(), r); err != nil {
		return nil, end, err
	}
	end = <-done
	return ids, end, end.Err
}

func greedyParams() sample.Params {
	p := sample.Default()
	p.Temperature = 0
	return p
}

// TestDenoised: blocks come as the program of the published semantics found them, by every rule, with the whole computed in every step and with finished
// blocks kept, alone and beside the others.
func TestDenoised(t *testing.T) {
	opened := func(dev backend.Device, err error) backend.Device {
		if err != nil {
			t.Fatal(err)
		}
		return dev
	}
	devices := map[string]func() backend.Device{
		"ref": func() backend.Device { return ref.New() },
		"cpu": func() backend.Device { return opened(cpu.New(cpu.Options{Threads: 1})) },
	}
	if _, err := cuda.Devices(); err == nil {
		devices["cuda"] = func() backend.Device { return opened(cuda.New(cuda.Options{})) }
	}
	for device, open := range devices {
		models := []string{"dream", "llada", "llada-tied-bias"}
		if device == "ref" { // that it computes them all as upstream does internal/check tests; here it is a device that samples nothing itself
			models = models[:1]
		}
		if testing.Short() && device == "ref" { // the race detector makes it slow
			continue
		}
		for _, name := range models {
			t.Run(device+"/"+name, func(t *testing.T) {
				e, want := diffusionEngine(t, name, open(), diffusionLimits), readDenoised(t, name)
				if len(want.Cases) < 9 {
					t.Fatalf("%d cases", len(want.Cases))
				}
				request := func(i int) engine.Request {
					c := want.Cases[i]
					return engine.Request{Prompt: want.Prompt, Params: greedyParams(), MaxTokens: len(c.IDs), Diffusion: diffusion.Options{
						Steps: c.Steps, Block: c.Block, Algorithm: c.Algorithm, Threshold: c.Threshold, Exact: c.Exact, CFGScale: c.CFGScale,
					}}
				}
				check := func(what string, i int, ids []int32, err error) {
					if err != nil || !slices.Equal(ids, want.Cases[i].IDs) {
						t.Errorf("%s, case %d %+v: %v, %v", what, i, want.Cases[i], ids, err)
					}
				}
				for i := range want.Cases {
					ids, end, err := found(e, request(i))
					check("alone", i, ids, err)
					if end.Steps != want.Cases[i].Passes || end.Reason != sample.ReasonLength || end.Output != len(ids) {
						t.Errorf("case %d: %d steps, %d wanted; %+v", i, end.Steps, want.Cases[i].Passes, end)
					}
				}
				var all sync.WaitGroup
				for i := range want.Cases {
					all.Go(func() {
						ids, _, err := found(e, request(i))
						check("together", i, ids, err)
					})
				}
				all.Wait()
			})
		}
	}
}

// TestDenoisedEnds: an answer ends at an end token, at its owner's word and at the longest length, however that divides into blocks; nothing of the
// block after the end is handed out.
func TestDenoisedEnds(t *testing.T) {
	e, want := diffusionEngine(t, "llada", ref.New(), diffusionLimits), readDenoised(t, "llada").Cases[5]
	prompt := readDenoised(t, "llada").Prompt
	o := diffusion.Options{Steps: want.Steps, Block: want.Block}
	at := 11
	for slices.Contains(want.IDs[:at], want.IDs[at]) {
		at++
	}
	ids, end, err := found(e, engine.Request{Prompt: prompt, Params: greedyParams(), MaxTokens: 24, Ends: want.IDs[at : at+1], Diffusion: o})
	if err != nil || !slices.Equal(ids, want.IDs[:at]) || end.Reason != sample.ReasonStop || end.End == nil || end.End.Token != want.IDs[at] {
		t.Errorf("an end token: %v, %+v, %v; %v wanted", ids, end, err, want.IDs[:at])
	}
	n := 0
	done := make(chan engine.Final, 1)
	if err := e.Submit(context.Background(), engine.Request{Prompt: prompt, Params: greedyParams(), MaxTokens: 24, Diffusion: o,
		Emit: func(sample.Choice) bool { n++; return n == 10 }, Done: func(f engine.Final) { done <- f }}); err != nil {
		t.Fatal(err)
	}
	if f := <-done; n != 10 || f.Reason != sample.ReasonStop || f.Output != 10 {
		t.Errorf("told to stop after 10 tokens: %d came, %+v", n, f)
	}
	late := 0 // answers in which a token that must not come early comes later in the same block
	for _, id := range slices.Compact(slices.Sorted(slices.Values(want.IDs[:12]))) {
		p := greedyParams()
		p.MinTokens, p.Late = 5, []int32{id}
		ids, _, err := found(e, engine.Request{Prompt: prompt, Params: p, MaxTokens: 12, Diffusion: diffusion.Options{Block: 12}})
		if err != nil || slices.Contains(ids[:5], id) {
			t.Errorf("token %d is not to come before 5 others: %v, %v", id, ids, err)
		}
		if slices.Contains(ids[5:], id) {
			late++
		}
	}
	if late == 0 {
		t.Error("tokens that must not come early do not come later either")
	}
	for _, longest := range []int{1, 7, 8, 9, 23} {
		ids, end, err := found(e, engine.Request{Prompt: prompt, Params: greedyParams(), MaxTokens: longest, Diffusion: diffusion.Options{Block: 8}})
		if err != nil || len(ids) != longest || end.Reason != sample.ReasonLength {
			t.Errorf("%d tokens at most: %v, %+v, %v", longest, ids, end, err)
		}
	}
}

// TestDenoisedSampled: the same seed gives the same text beside any others, and other seeds others; siblings are answers of their own; no mask is in any.
func TestDenoisedSampled(t *testing.T) {
	for name, o := range map[string]diffusion.Options{
		"llada": {Block: 6, Steps: 10}, "llada-tied-bias": {Block: 6, Steps: 10, Algorithm: diffusion.Random}, "dream": {Block: 6, Steps: 10, AlgTemp: 0.1},
	} {
		e, prompt := diffusionEngine(t, name, ref.New(), diffusionLimits), readDenoised(t, name).Prompt
		texts := map[string]bool{}
		var mu sync.Mutex
		var all sync.WaitGroup
		seeds := 6
		if testing.Short() {
			seeds = 2
		}
		for seed := range uint64(seeds) {
			p := sample.Default()
			p.Seed = seed
			r := engine.Request{Prompt: prompt, Params: p, MaxTokens: 20, Diffusion: o}
			once, _, err := found(e, r)
			if err != nil || slices.Contains(once, 95) {
				t.Fatalf("seed %d: %v, %v", seed, once, err)
			}
			for range 3 {
				all.Go(func() {
					again, _, err := found(e, r)
					if err != nil || !slices.Equal(once, again) {
						t.Errorf("seed %d: %v, then %v, %v", seed, once, again, err)
					}
					mu.Lock()
					defer mu.Unlock()
					texts[fmt.Sprint(again)] = true
				})
			}
		}
		all.Wait()
		if len(texts) != seeds {
			t.Errorf("%s: %d seeds gave %d texts", name, seeds, len(texts))
		}
	}
}

// TestDenoisedUnderPressure: with pages for one and a half requests some wait, none is preempted, and all are answered as alone: what the cache has of a
// text depends on what it was computed beside. Of a guided request two texts are there.
func TestDenoisedUnderPressure(t *testing.T) {
	lim := diffusionLimits
	lim.Pages = 9
	e, prompt := diffusionEngine(t, "dream", ref.New(), lim), readDenoised(t, "dream").Prompt
	r := rand.New(rand.NewPCG(1, 2))
	var all sync.WaitGroup
	requests := 12
	if testing.Short() {
		requests = 3
	}
	for range requests {
		n, o := 20+r.IntN(30), diffusion.Options{Block: 1 + r.IntN(20), Threshold: float64(r.IntN(2)) * 0.3, Exact: r.IntN(4) == 0, CFGScale: float64(r.IntN(2))}
		request := engine.Request{Prompt: prompt, Params: greedyParams(), MaxTokens: n, Diffusion: o}
		alone, end, err := found(e, request)
		if err != nil || len(alone) != n || end.Reason != sample.ReasonLength {
			t.Fatalf("%+v, %d tokens: %v, %+v, %v", o, n, alone, end, err)
		}
		all.Go(func() {
			for range 2 {
				if ids, _, err := found(e, request); err != nil || !slices.Equal(ids, alone) {
					t.Errorf("%+v, %d tokens: %v beside others, %v; %v alone", o, n, ids, err, alone)
				}
			}
		})
	}
	all.Wait()
	s := e.Stats()
	for until := time.Now().Add(10 * time.Second); s.PagesUsed != 0 && time.Now().Before(until); s = e.Stats() { // they are published after the last answer's end
		time.Sleep(time.Millisecond)
	}
	if s.PagesUsed != 0 || s.Preemptions != 0 {
		t.Errorf("%d pages are used, and %d requests were preempted", s.PagesUsed, s.Preemptions)
	}
}

// TestDenoisingRefused: what such a model cannot be asked for is refused by name, and so is diffusion where a model writes from left to right.
func TestDenoisingRefused(t *testing.T) {
	e := diffusionEngine(t, "llada", ref.New(), diffusionLimits)
	ask := func(of func(*engine.Request)) string {
		r := engine.Request{Prompt: []int32{5, 6}, Params: greedyParams(), MaxTokens: 4}
		of(&r)
		if _, _, err := found(e, r); err != nil {
			return err.Error()
		}
		return ""
	}
	for want, of := range map[string]func(*engine.Request){
		"a grammar, a schema":                           func(r *engine.Request) { r.Grammar = &grammar.Matcher{} },
		"log-probabilities of the prompt are asked for": func(r *engine.Request) { r.PromptLogprobs = func(int, sample.Choice) {} },
		"cannot be replayed":                            func(r *engine.Request) { r.Forced = []engine.StepOutput{} },
		"threshold is 1.5; 0":                           func(r *engine.Request) { r.Diffusion.Threshold = 1.5 },
		"steps are -1; 0":                               func(r *engine.Request) { r.Diffusion.Steps = -1 },
		"block length is 40 and a step":                 func(r *engine.Request) { r.Diffusion.Block = 40 },
		"block length is 2000; 0":                       func(r *engine.Request) { r.Diffusion.Block = 2000 },
		`algorithm is "best"`:                           func(r *engine.Request) { r.Diffusion.Algorithm = "best" },
		"(alg_temp) is -1; 0":                           func(r *engine.Request) { r.Diffusion.AlgTemp = -1 },
		"is so already, or is":                          func(r *engine.Request) { r.Diffusion.AlgTemp, r.Diffusion.Algorithm = 1, diffusion.Random },
		"(cfg_scale) is NaN; 0":                         func(r *engine.Request) { r.Diffusion.CFGScale = math.NaN() },
		"asks nobody how sure":                          func(r *engine.Request) { r.Diffusion.Algorithm, r.Diffusion.Threshold = diffusion.Origin, 0.5 },
		"which is no probability":                       func(r *engine.Request) { r.Diffusion.Algorithm, r.Diffusion.Threshold = diffusion.Entropy, 0.5 },
	} {
		if got := ask(of); !strings.Contains(got, want) {
			t.Errorf("%q was wanted, and %q came", want, got)
		}
	}
	left := embedder(t, ref.New(), false, backend.Limits{Tokens: 64, Seqs: 1, Logits: 1, PageSize: 16, SeqPages: 4, Pages: 4})
	if _, _, err := found(left, engine.Request{Prompt: []int32{5}, Params: greedyParams(), MaxTokens: 1, Diffusion: diffusion.Options{Block: 4}}); err == nil || !strings.Contains(err.Error(), "writes from left to right") {
		t.Errorf("blocks of a model from left to right: %v", err)
	}
}
