package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/sample"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// TestSequenceMixed: where devices divide rows and cache, requests get what they get alone on one device: chunked prompts, prefixes found in the cache, preemption and swapping, in
// RIDGE_INTERLEAVINGS random interleavings of each setup. Layers are full, windowed and recurrent.
func TestSequenceMixed(t *testing.T) {
	interleavings := 6
	if n, err := strconv.Atoi(os.Getenv("RIDGE_INTERLEAVINGS")); err == nil {
		interleavings = n
	}
	testdata := "../internal/check/testdata/"
	for _, s := range []struct {
		dir string
		how keep
		l   pass.Layout
	}{
		{"llama-default", tightly, pass.Layout{Sequence: 2, Method: pass.Ring}}, {"llama-default", swapped, pass.Layout{Sequence: 3, Method: pass.Ring}},
		{"gptoss-yarn", tightly, pass.Layout{Sequence: 2, Method: pass.Ring}}, {"kimi-linear", windows, pass.Layout{Sequence: 2, Method: pass.Ring}},
		{"llama-default", swapped, pass.Layout{Sequence: 2, Method: pass.Ulysses}}, {"gptoss-yarn", tightly, pass.Layout{Sequence: 2, Method: pass.Ulysses}},
	} {
		s.l.Tensor, s.l.Pipeline, s.l.Data = 1, 1, 1
		t.Run(fmt.Sprintf("%s/%d/%s", filepath.Base(s.dir), s.how, s.l), func(t *testing.T) {
			mixedRows(t, testdata+s.dir, s.how, s.l, interleavings)
		})
	}
}

// mixedRows compares requests on the devices of a layout with what they get alone on one, without a cache.
func mixedRows(t *testing.T, dir string, how keep, l pass.Layout, interleavings int) {
	var devices []backend.Device
	for range l.Devices() {
		dev, err := cpu.New(cpu.Options{Threads: 1, Deterministic: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		devices = append(devices, dev)
	}
	lim := backend.Limits{Tokens: 56, Seqs: 4, Logits: 4, PageSize: 16, SeqPages: 15}
	single := lim
	single.Seqs, single.Logits = 1, 1
	random := rand.New(rand.NewPCG(7, 8))
	one := windowedAt(t, dir, devices[0], graph.F32, single, keepAll, Options{Index: "none"})
	var asked []Request
	var alone [][]int32
	for i := range 16 {
		n := 1 + random.IntN(180)
		p := sample.Default()
		p.Seed, p.Temperature = uint64(i), 0
		asked = append(asked, Request{Prompt: words(i%4, i, random.IntN(n+1), n), Params: p, MaxTokens: 1 + random.IntN(40)})
		got := ask(t, one, asked[i])
		for one.admit(); len(one.queue.byID) > 0; one.admit() {
			mustStepOrSwap(t, one)
		}
		alone = append(alone, *got)
	}
	b, err := modeldir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Index: []string{"radix", "hash"}[int(how)%2]}
	lim.Divide(l.PageRanks())
	prog, err := compile.CompileGroup(g, pass.Options{Layout: l}, devices, b, kept(g, lim, how, &o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(prog.Close)
	mixed(t, newStepped(t, prog, o), how, asked, alone, interleavings, random)
}
