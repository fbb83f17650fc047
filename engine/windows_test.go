package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/weights"
)

// keep says how many pages the cache groups of a windowed model have.
type keep int

const (
	keepAll keep = iota // every group keeps all tokens, in one table
	windows             // groups with a window have what steps can need and no page more
	tightly             // and the main group has so few that requests are preempted
	swapped             // or swapped out
)

// windowed is an engine on a windowed model of internal/check.
func windowed(t *testing.T, name string, dev backend.Device, cache graph.Type, lim backend.Limits, how keep, o Options) *stepped {
	t.Helper()
	return windowedAt(t, "../internal/check/testdata/"+name, dev, cache, lim, how, o)
}

// windowedAt is windowed on the model in a folder.
func windowedAt(t *testing.T, dir string, dev backend.Device, cache graph.Type, lim backend.Limits, how keep, o Options) *stepped {
	t.Helper()
	b, err := modeldir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	if g, err = pass.Run(g, pass.All, pass.Options{Q8: dev.Info().Q8}); err != nil {
		t.Fatal(err)
	}
	lim = kept(g, lim, how, &o)
	prog, err := compile.Compile(g, dev, b, lim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(prog.Close)
	return newStepped(t, prog, o)
}

// kept is limits with pages for what an engine is to keep.
func kept(g *graph.Graph, lim backend.Limits, how keep, o *Options) backend.Limits {
	lim.Pages = lim.Seqs * lim.SeqPages
	if how == tightly || how == swapped {
		lim.Pages = lim.SeqPages + 4
	}
	if how == swapped {
		lim.SwapPages = 2 * lim.SeqPages
		o.Predictor = dear{}
	}
	if how == keepAll {
		lim.KeepAll(g)
	} else {
		for _, c := range g.CacheGroups() {
			need := c.StepPages(graph.CacheShape{Seqs: lim.Seqs, Tokens: lim.SeqPages * lim.PageSize, StepTokens: lim.Tokens, PageSize: lim.PageSize})
			if len(g.CacheGroups()) == 1 { // the group is the main one
				need = lim.Pages
			}
			lim.Groups = append(lim.Groups, backend.GroupLimits{Window: c.Window, Pages: min(need, lim.Pages), SwapPages: lim.SwapPages, Recurrent: c.Recurrent})
		}
	}
	return lim
}

// words is n tokens, of which texts of the same topic have the first `same` in common.
func words(topic, text, same, n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(3 + (topic*31+i*i*7+i)%90)
		if i >= same {
			tokens[i] = int32(3 + (topic*17+text*29+i*i*5)%90)
		}
	}
	return tokens
}

// talk runs a conversation: requests with beginnings in common, one with three answers, then requests that go on from the answers
// or part from the first prompts in their middle. It returns the answers.
func talk(t *testing.T, e *stepped) (answers [][]int32) {
	t.Helper()
	ask := func(prompt []int32, seed int) Request {
		answers = append(answers, nil)
		i := len(answers) - 1
		p := sample.Default()
		p.Seed, p.Temperature = uint64(seed), float64(seed%2)
		return Request{Prompt: prompt, Params: p, MaxTokens: 25, Done: func(f Final) {
			if f.Err != nil {
				t.Error(f.Err)
			}
		}, Emit: func(c sample.Choice) bool {
			answers[i] = append(answers[i], c.Token)
			return false
		}}
	}
	run := func() {
		for e.admit(); len(e.queue.byID) > 0; e.admit() {
			mustStepOrSwap(t, e)
		}
	}
	submit := func(r Request, siblings ...Request) {
		if err := e.Submit(context.Background(), r, siblings...); err != nil {
			t.Fatal(err)
		}
	}
	var prompts [][]int32
	for i := range 5 {
		prompts = append(prompts, words(i/2, i, 70, 30+25*i))
		submit(ask(prompts[i], i))
	}
	several := words(7, 1, 60, 61)
	submit(ask(several, 10), ask(several, 11), ask(several, 12))
	run()
	for i, prompt := range prompts {
		longer := slices.Concat(prompt, answers[i][:24], words(9, i, 0, 12))
		submit(ask(longer, 20+i))
		submit(ask(slices.Concat(prompt[:len(prompt)*2/3], words(8, i, 0, 10)), 30+i))
		if i%2 == 1 {
			run()
		}
	}
	run()
	return answers
}

// mustStepOrSwap makes a step and holds the accounts of pages to what they promise.
func mustStepOrSwap(t *testing.T, e *stepped) {
	t.Helper()
	if e.pages.hosts == nil {
		mustStep(t, e)
		return
	}
	if err := e.step(); err != nil {
		t.Fatal(err)
	}
	checkSwap(t, e)
}

// TestWindows: a model whose layers have windows says the same whether all tokens of all layers are kept or only those in the
// windows, whatever is shared, continued, preempted or swapped out meanwhile.
func TestWindows(t *testing.T) {
	lim := backend.Limits{Tokens: 40, Seqs: 4, Logits: 4, PageSize: 16, SeqPages: 16}
	alone := lim
	alone.Seqs, alone.Logits = 1, 3
	names := []string{"gemma3-pattern", "gptoss-yarn", "mistral-window", "qwen2-windows", "gemma2"}
	for i, name := range names {
		for j, device := range []string{"cpu", "ref"} {
			if testing.Short() && (device == "ref" || !strings.HasPrefix(name, "g")) || device == "ref" && i > 1 { // a device that cannot swap, by layers with and without windows
				continue
			}
			open := func() (backend.Device, graph.Type) {
				if device == "ref" {
					return ref.New(), graph.F32
				}
				d, err := cpu.New(cpu.Options{Threads: 1, Deterministic: true})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { d.Close() })
				return d, graph.F16
			}
			dev, cache := open()
			want := talk(t, windowed(t, name, dev, cache, alone, keepAll, Options{Index: "none"}))
			index := []string{"radix", "hash", "none"}[(i+j)%3] // every one with some models, which takes a third of the time
			if testing.Short() {
				index = "radix"
			}
			for _, how := range []keep{windows, tightly, swapped} {
				if how == swapped && device == "ref" {
					continue // no swapper
				}
				t.Run(fmt.Sprintf("%s/%s/%s/%d", name, device, index, how), func(t *testing.T) {
					dev, cache := open()
					e := windowed(t, name, dev, cache, lim, how, Options{Index: index})
					got := talk(t, e)
					for i := range want {
						if !slices.Equal(got[i], want[i]) {
							t.Errorf("answer %d is %v, and with everything kept %v", i, got[i], want[i])
						}
					}
					checkWindowStats(t, e, index, how)
				})
			}
		}
	}
}

// checkWindowStats holds a conversation to what it is to exercise.
func checkWindowStats(t *testing.T, e *stepped, index string, how keep) {
	t.Helper()
	e.publish()
	s := e.Stats()
	switch {
	case s.PagesUsed != 0 || e.pages.Available() != e.pages.Total():
		t.Errorf("pages are in use after the last request: %v of %v available", e.pages.Available(), e.pages.Total())
	case index != "none" && s.Found == 0:
		t.Error("nothing was found in the cache")
	case e.pages.Groups() == 1: // a few pages of a window's are enough for all
	case how == tightly && s.Preemptions == 0, how == swapped && s.Swaps == 0:
		t.Errorf("nothing was preempted: %+v", s)
	}
}

// TestWindowsUpstream: with only what the windows need, answers are those that upstream computed.
func TestWindowsUpstream(t *testing.T) {
	for _, pattern := range []string{"../internal/check/testdata/*win*", "../internal/check/testdata/gemma*", "../internal/check/testdata/gptoss*",
		"../../shared/reference/architectures/gemma[23]", "../../shared/reference/architectures/gpt-oss", "../../shared/reference/architectures/mistral-sliding"} {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			if strings.HasPrefix(filepath.Base(dir), "gemma-embedding") { // which has no answers
				continue
			}
			t.Run(filepath.Base(dir), func(t *testing.T) {
				golden, err := weights.Open(filepath.Join(dir, "golden.safetensors"))
				if err != nil {
					t.Fatal(err)
				}
				defer golden.Close()
				ints := func(name string) (ids []int32) {
					_, raw, err := golden.Raw(name)
					if err != nil {
						t.Fatal(err)
					}
					for ; len(raw) > 0; raw = raw[4:] {
						ids = append(ids, int32(binary.LittleEndian.Uint32(raw)))
					}
					return ids
				}
				info, _, err := golden.Raw("input_ids")
				if err != nil {
					t.Fatal(err)
				}
				prompt, want := ints("input_ids")[:info.Shape[1]], ints("greedy_ids")
				lim := backend.Limits{Tokens: 20, Seqs: 2, Logits: 2, PageSize: 4, SeqPages: 24}
				e := windowedAt(t, dir, ref.New(), graph.F32, lim, windows, Options{})
				var got [2][]int32
				for i := range got { // the second finds the first's prompt
					r := greedy(prompt, len(want))
					r.Emit = func(c sample.Choice) bool {
						got[i] = append(got[i], c.Token)
						return false
					}
					if err := e.Submit(context.Background(), r); err != nil {
						t.Fatal(err)
					}
					for e.admit(); len(e.queue.byID) > 0; e.admit() {
						mustStep(t, e)
					}
					if !slices.Equal(got[i], want) {
						t.Errorf("answer %d is %v, upstream's %v", i, got[i], want)
					}
				}
				e.publish()
				if s := e.Stats(); s.Found == 0 {
					t.Error("the second request found nothing in the cache")
				}
			})
		}
	}
}

// TestMovedPages: swapping a sequence out moves what its groups hold of it: of gpt-oss' two layers, one whole and one window.
func TestMovedPages(t *testing.T) {
	lim := backend.Limits{Tokens: 64, Seqs: 2, Logits: 2, PageSize: 16, SeqPages: 16}
	e := windowed(t, "gptoss-yarn", ref.New(), graph.F32, lim, windows, Options{})
	if err := e.Submit(context.Background(), greedy(words(1, 1, 0, 200), 20)); err != nil {
		t.Fatal(err)
	}
	for e.admit(); e.meter.stats.Output < 5; e.admit() {
		mustStep(t, e)
	}
	for _, r := range e.queue.byID {
		e.pages.Trim(&r.seq)
		held := e.pages.Held(&r.seq)
		if whole := e.pages.PagesFor(r.seq.Len()); held[1] != whole || held[0] > 2 || e.pages.moved(&r.seq) != float64(held[0]+held[1])/2 {
			t.Errorf("of %d pages %v are held, and moving them is moving %g", whole, held, e.pages.moved(&r.seq))
		}
	}
}
