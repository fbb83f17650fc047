package ridge_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge"
)

// loadRanks loads a model on the ranks of a layout, which are goroutines here and share nothing but what processes do.
func loadRanks(t *testing.T, path string, o ridge.Options, other func(rank int, o *ridge.Options)) (m *ridge.Model, others []error, err error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Ranks = ridge.Ranks{Rendezvous: l.Addr().String(), Secret: "the secret of a test", Transport: o.Ranks.Transport, Noticed: 30 * time.Second, Meet: 30 * time.Second}
	errs := make([]error, o.Layout.Devices())
	var all sync.WaitGroup
	for rank := 1; rank < len(errs); rank++ {
		o := o
		o.Ranks.Number = rank
		if other != nil {
			other(rank, &o)
		}
		all.Go(func() { errs[rank] = ridge.Work(path, o) })
	}
	o.Ranks.Listener = l
	if m, err = ridge.Load(path, o); err != nil {
		all.Wait()
		return nil, errs, err
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
		for rank, err := range errs {
			if err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		}
	})
	return m, nil, nil
}

// TestRanks: a model's ranks answer as one device does, over shared memory and over TCP, with requests that are preempted, swapped and computed again, drafts, experts and recurrent states.
func TestRanks(t *testing.T) {
	for _, c := range []struct {
		model   string
		layout  ridge.Layout
		options ridge.Options
	}{
		{"llama-default", ridge.Layout{Tensor: 2, Pipeline: 2}, ridge.Options{KV: ridge.Budget{Bytes: 96 << 10}, Swap: 1 << 20}},
		{"llama-default", ridge.Layout{Tensor: 2}, ridge.Options{Speculation: ridge.Speculation{Method: "ngram"}, Ranks: ridge.Ranks{Transport: "tcp"}}},
		{"gptoss-yarn", ridge.Layout{Tensor: 2, Expert: 2}, ridge.Options{}},
		{"llama-default", ridge.Layout{Tensor: 2, Sequence: 2, SequenceMethod: "ring"}, ridge.Options{KV: ridge.Budget{Bytes: 96 << 10}, Swap: 1 << 20}},
		{"gptoss-yarn", ridge.Layout{Pipeline: 2, Sequence: 2, Expert: 2}, ridge.Options{Ranks: ridge.Ranks{Transport: "tcp"}}},
		{"gptoss-yarn", ridge.Layout{Data: 2, Expert: 2}, ridge.Options{Ranks: ridge.Ranks{Transport: "tcp"}}},
		{"gptoss-yarn", ridge.Layout{Data: 2, Tensor: 2}, ridge.Options{KV: ridge.Budget{Bytes: 128 << 10}, Swap: 1 << 20}},
		{"jamba-bias", ridge.Layout{Data: 2}, ridge.Options{Speculation: ridge.Speculation{Method: "ngram"}}},
		{"qwen3.5-wide", ridge.Layout{Sequence: 2, SequenceMethod: "ulysses"}, ridge.Options{Speculation: ridge.Speculation{Method: "ngram"}}},
		{"qwen3.5-wide", ridge.Layout{Pipeline: 2}, ridge.Options{Ranks: ridge.Ranks{Transport: "tcp"}}},
	} {
		t.Run(fmt.Sprintf("%s %+v", c.model, c.layout), func(t *testing.T) {
			dir := withTokenizer(t, "internal/check/testdata/"+c.model)
			o := c.options
			o.Threads, o.Cache, o.Context, o.Deterministic = 1, "f32", 128, true
			transport := o.Ranks
			o.Ranks = ridge.Ranks{}
			want := answers(t, loadFrom(t, dir, o))
			o.Layout, o.Ranks = c.layout, transport
			m, _, err := loadRanks(t, dir, o, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := answers(t, m); !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("answers are\n%v\nand should be\n%v", got, want)
			}
		})
	}
}

// TestRankLoaded: a rank says when it has its part of the model, and not at its end, when it is of no use.
func TestRankLoaded(t *testing.T) {
	loaded := make(chan int, 2)
	o := ridge.Options{Layout: ridge.Layout{Tensor: 2}, Threads: 1, Context: 64}
	if _, _, err := loadRanks(t, modelFile(t, "F32"), o, func(rank int, o *ridge.Options) { o.Ranks.Loaded = func() { loaded <- rank } }); err != nil {
		t.Fatal(err)
	}
	select {
	case rank := <-loaded:
		if rank != 1 {
			t.Errorf("rank %d says that it has loaded", rank)
		}
	case <-time.After(20 * time.Second):
		t.Error("rank 1 has not said that it has its part of the model")
	}
}

// TestRanksAdapters: adapters reach all ranks, and texts are embedded as by one device.
func TestRanksAdapters(t *testing.T) {
	path := modelFile(t, "F32")
	o := ridge.Options{MaxLoRAs: 1, Cache: "f32", Threads: 1}
	answer := func(m *ridge.Model) (string, []float32) {
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
		return text, e.Vector
	}
	want, vector := answer(loadFrom(t, path, o))
	o.Layout = ridge.Layout{Tensor: 2}
	m, _, err := loadRanks(t, path, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, e := answer(m)
	if text != want {
		t.Errorf("ranks answer %q and should answer %q", text, want)
	}
	if same := dot(e, vector); same < 0.9999 {
		t.Errorf("ranks embed a text with a cosine of %g to one device's", same)
	}
}

// TestSequenceEmbeds: where devices divide rows, rows have their adapters, and texts are embedded, by the last token and by the mean of all, as by one device.
func TestSequenceEmbeds(t *testing.T) {
	path := modelFile(t, "F32")
	for _, pooling := range []string{"", "mean"} {
		o := ridge.Options{MaxLoRAs: 1, Cache: "f32", Threads: 1, Pooling: pooling}
		run := func(o ridge.Options) (string, []float32) {
			m := loadFrom(t, path, o)
			if _, err := m.AddAdapterDir("adapters"); err != nil {
				t.Fatal(err)
			}
			p := ridge.Greedy()
			p.MaxTokens, p.Adapters = 24, []ridge.UseAdapter{{Name: "pirate", Scale: 1}}
			text, _ := generate(t, m, "Once upon a time", p)
			e, err := m.Embed(context.Background(), strings.Repeat("Once upon a time there was a fox. ", 6))
			if err != nil {
				t.Fatal(err)
			}
			return text, e.Vector
		}
		text, vector := run(o)
		for _, method := range []string{"ring", "ulysses"} {
			o.Layout = ridge.Layout{Sequence: 2, SequenceMethod: method}
			got, embedded := run(o)
			if got != text {
				t.Errorf("%s: devices answer %q and should answer %q", method, got, text)
			}
			if same := dot(embedded, vector); same < 0.9999 {
				t.Errorf("%s, pooling %q: devices embed a text with a cosine of %g to one device's", method, pooling, same)
			}
		}
	}
}

// TestRanksDiffer: ranks that do not run the same are told what differs, all of them.
func TestRanksDiffer(t *testing.T) {
	o := ridge.Options{Layout: ridge.Layout{Tensor: 2}, Threads: 1}
	for want, other := range map[string]func(rank int, o *ridge.Options){
		`the type of cached keys (--kv-type) is "f32" there and "" on rank 0`: func(_ int, o *ridge.Options) { o.Cache = "f32" },
		"the adapters (--max-loras, --max-lora-rank) is \"1 of rank 64\"":     func(_ int, o *ridge.Options) { o.MaxLoRAs = 1 },
		`the layout is "tp1 pp2 dp1" there and "tp2 pp1 dp1" on rank 0`:       func(_ int, o *ridge.Options) { o.Layout = ridge.Layout{Pipeline: 2} },
	} {
		_, others, err := loadRanks(t, "", o, other)
		for rank, err := range []error{err, others[1]} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("rank %d: %v; wanted %q", rank, err, want)
			}
		}
	}
	for want, ranks := range map[string]ridge.Ranks{
		"and no Rendezvous": {Number: 1}, "Ranks.Number (--rank) is 2; the layout tp2 pp1 dp1 has 2 ranks": {Rendezvous: "127.0.0.1:1", Number: 2},
		"the ranks' secret has 3 bytes; 16 at least": {Rendezvous: "127.0.0.1:1", Number: 1, Secret: "abc"},
	} {
		o.Ranks = ranks
		if err := ridge.Work("", o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; wanted %q", ranks, err, want)
		}
	}
}
