package kv

import (
	"testing"

	"github.com/ridge-llm/ridge/internal/testkit/agents"
)

// serve runs the requests, so many at once, and gives the tokens that were found and what computing the others of their prompts takes by a price.
func serve(t *testing.T, m *Manager, all []agents.Turn, chunk, atOnce int, price func(from, to int) float64) (found int64, waited float64) {
	t.Helper()
	type running struct {
		Seq
		agents.Turn
	}
	var active []*running
	var copies []Copy
	step := func(r *running) bool { // reports whether it goes on
		text := r.Prompt
		prompt := len(text) - r.Answer
		n := 1
		if r.Len() < prompt {
			m.Snapshot(&r.Seq, text)
			n = min(chunk, prompt-r.Len())
			if n < prompt-r.Len() {
				n -= (r.Len() + n) % m.PageSize()
			}
			if parts := m.Parts(&r.Seq); parts > r.Len() {
				n = min(n, parts-r.Len())
			}
		} else {
			m.Snapshot(&r.Seq, text)
		}
		if r.Len() == len(text) {
			m.Free(&r.Seq)
			return false
		}
		var ok bool
		if copies, ok = m.Append(&r.Seq, n, copies[:0]); !ok {
			t.Fatalf("no pages for %d tokens after %d: %v available", n, r.Len(), m.Available())
		}
		m.Publish(&r.Seq, text)
		return true
	}
	reserved := 0 // pages of the requests that run, at their longest
	for len(all) > 0 || len(active) > 0 {
		for len(all) > 0 && len(active) < atOnce {
			r := &running{Turn: all[0]}
			if reserved += m.PagesFor(len(r.Prompt)); reserved > m.Total()[0] && len(active) > 0 {
				reserved -= m.PagesFor(len(r.Prompt))
				break
			}
			all = all[1:]
			prompt := len(r.Prompt) - r.Answer
			waited += price(m.Open(&r.Seq, Salt{}, r.Prompt[:prompt]), prompt)
			active = append(active, r)
		}
		still := active[:0]
		for _, r := range active {
			if step(r) {
				still = append(still, r)
			} else {
				reserved -= m.PagesFor(len(r.Prompt))
			}
		}
		active = still
	}
	return m.Stats().Found, waited
}

// seconds is the price of a prompt's tokens on a GPU of 400 TFLOP/s with 1.2 GFLOP for a token and in so many layers of attention 8 heads of 256.
func seconds(layers float64) func(from, to int) float64 {
	return func(from, to int) float64 {
		a, b := float64(from), float64(to)
		return ((b-a)*1.2e9 + (b*b-a*a)/2*layers*4*8*256) / 400e12
	}
}

// TestAgents: with the same memory, a hybrid finds at least 95 % of the tokens in its prefix cache that a model with attention alone finds. The
// sizes are those of Qwen3.5-0.8B, and of the same with attention in all of its layers.
func TestAgents(t *testing.T) {
	const (
		page, attention = 16 * 12288, 16 * 4 * 12288 // bytes of a page
		state           = 18 * (16*128*128 + 3*6144) * 4
		atOnce, chunk   = 8, 512
	)
	for _, conversations := range []int{6, 20, 60} {
		all := agents.Turns(conversations, 12, 1<<17)
		asked := 0
		for _, r := range all {
			asked += len(r.Prompt) - r.Answer
		}
		for _, memory := range []int{3 << 30, 6 << 30, 12 << 30} {
			run := func(states int, price func(from, to int) float64, groups ...Group) (int64, float64) {
				m, err := New(Options{PageSize: 16, Groups: groups, Index: Radix, StatePages: states, Price: price})
				if err != nil {
					t.Fatal(err)
				}
				return serve(t, m, all, chunk, atOnce, price)
			}
			states := 2 * (atOnce + 1) // as backend.Paging has it
			hybrid, hybridSeconds := run((state+page-1)/page, seconds(6), Group{Pages: (memory - states*state) / page}, Group{Pages: states, Recurrent: true})
			pure, pureSeconds := run(0, seconds(24), Group{Pages: memory / attention})
			t.Logf("%d conversations, %d GB: computing what was not found takes %.1f s, with attention alone %.1f", conversations, memory>>30, hybridSeconds, pureSeconds)
			t.Logf("%d conversations, %d GB: of %d tokens attention alone found %.3f, a hybrid %.3f", conversations, memory>>30, asked,
				float64(pure)/float64(asked), float64(hybrid)/float64(asked))
			if hybridSeconds > 1.2*pureSeconds {
				t.Errorf("%d conversations, %d GB: computing what the hybrid did not find takes %.1f s, and with attention alone %.1f", conversations, memory>>30, hybridSeconds, pureSeconds)
			}
			if float64(hybrid) < 0.95*float64(pure) {
				t.Errorf("%d conversations, %d GB: the hybrid found %d tokens, and attention alone %d", conversations, memory>>30, hybrid, pure)
			}
		}
	}
}

// TestParts: of a text's states the newest one is kept, and those that another has gone on from; where a text parts from one that is known there is no
// state, and so Parts names the place.
func TestParts(t *testing.T) {
	m, err := New(Options{PageSize: 16, Groups: []Group{{Pages: 100}, {Pages: 10, Recurrent: true}}, Index: Radix})
	if err != nil {
		t.Fatal(err)
	}
	text := func(same, n int, seed int32) []int32 {
		words := make([]int32, n)
		for i := range words {
			if words[i] = int32(i); i >= same {
				words[i] += seed
			}
		}
		return words
	}
	compute := func(s *Seq, tokens []int32, ends ...int) {
		for _, end := range ends {
			if _, ok := m.Append(s, end-s.Len(), nil); !ok {
				t.Fatal("no pages")
			}
			m.Publish(s, tokens)
			m.Snapshot(s, tokens)
		}
	}
	a, first := text(0, 400, 1000), Seq{}
	m.Open(&first, Salt{}, a)
	compute(&first, a, 160, 320, 352, 390)
	m.Free(&first)
	if kept, _ := m.Kept(); kept != 1 {
		t.Errorf("%d states are kept of a text computed in four steps, and the newest is wanted", kept)
	}
	b := append(a[:200:200], text(0, 200, 2000)...)
	var second Seq
	if found := m.Open(&second, Salt{}, b); found != 0 || m.Parts(&second) != 192 || m.Stranded(&second) != 192 {
		t.Errorf("%d tokens found, %d stranded, parting at %d; none, 192 and 192 are right", found, m.Stranded(&second), m.Parts(&second))
	}
	compute(&second, b, 192, 352, 390)
	m.Free(&second)
	c := append(a[:200:200], text(0, 200, 3000)...)
	var third Seq
	if found := m.Open(&third, Salt{}, c); found != 192 || m.Parts(&third) != 0 {
		t.Errorf("%d tokens found, parting at %d; 192 and nowhere are right", found, m.Parts(&third))
	}
	compute(&third, c, 208, 384)
	m.Free(&third)
	if kept, _ := m.Kept(); kept != 4 { // where they part, and three ends
		t.Errorf("%d states are kept, and 4 are wanted", kept)
	}
}
