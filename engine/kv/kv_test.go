package kv

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func newManager(t testing.TB, pages int, index func(int, int) Index) *Manager {
	t.Helper()
	p, err := New(Options{PageSize: 16, Groups: []Group{{Pages: pages}}, Index: index})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// text is n tokens of which the first `same` are those of every text, and the rest only those of text number id.
func text(id, same, n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(i)
		if i >= same {
			tokens[i] = int32(1000*id + i)
		}
	}
	return tokens
}

// compute takes a new sequence through its whole prompt and says how much of it was found.
func compute(t testing.TB, p *Manager, s *Seq, salt uint64, tokens []int32) int {
	t.Helper()
	found := p.Open(s, Salt{Own: salt}, tokens)
	if _, ok := p.Append(s, len(tokens)-found, nil); !ok {
		t.Fatalf("no room for %d tokens in %v pages", len(tokens)-found, p.Available())
	}
	p.Publish(s, tokens)
	return found
}

func TestPrefixReuse(t *testing.T) {
	for _, index := range indexes[:2] {
		t.Run(index.name, func(t *testing.T) {
			p := newManager(t, 64, index.make)
			var a, b, c, d, e Seq
			steps := []struct {
				what   string
				s      *Seq
				salt   uint64
				tokens []int32
				want   int
			}{
				{"an empty cache", &a, 0, text(1, 40, 100), 0},
				{"a text that parts at token 40 shares two pages", &b, 0, text(2, 40, 100), 32},
				{"the same text again: all but its last page", &c, 0, text(1, 40, 97), 96},
				{"the same text ending with a page: one token is left to compute", &d, 0, text(1, 40, 96), 80},
				{"another tenant", &e, 1, text(1, 40, 100), 0},
			}
			for _, step := range steps {
				if got := compute(t, p, step.s, step.salt, step.tokens); got != step.want {
					t.Errorf("%s: found %d tokens, want %d", step.what, got, step.want)
				}
				if err := p.Check(&a, &b, &c, &d, &e); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := p.Stats(), (Stats{Queried: 493, Found: 32 + 96 + 80}); got != want {
				t.Errorf("counts %+v, want %+v", got, want)
			}
		})
	}
}

// TestEviction: the end of the text that was let go of first goes first, and held pages never.
func TestEviction(t *testing.T) {
	for _, index := range indexes[:2] {
		t.Run(index.name, func(t *testing.T) {
			p := newManager(t, 12, index.make)
			var held, old, recent, big Seq
			compute(t, p, &held, 0, text(1, 16, 48))   // 3 pages
			compute(t, p, &old, 0, text(2, 16, 64))    // 3 more
			compute(t, p, &recent, 0, text(3, 16, 64)) // 3 more
			p.Free(&old)
			p.Free(&recent)
			if p.Available()[0] != 9 || p.Idle()[0] != 6 {
				t.Fatalf("%d pages available, %d idle; want 9 and 6", p.Available()[0], p.Idle()[0])
			}
			compute(t, p, &big, 9, text(4, 0, 5*16)) // 3 free pages, 2 evicted
			for id, want := range map[int]int{1: 48, 2: 32, 3: 64} {
				if got, _ := p.Match(Salt{}, text(id, 16, 65)); got != want {
					t.Errorf("text %d: %d tokens are left in the cache, want %d", id, got, want)
				}
			}
			if p.Stats().Evicted != 2 {
				t.Errorf("%d pages evicted, want 2", p.Stats().Evicted)
			}
			if _, ok := p.Append(&big, 5*16, nil); ok {
				t.Error("5 pages were given out of 4")
			}
			if err := p.Check(&held, &big); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSharedPromptIsComputedOnce: requests of one beginning that arrive together and advance in lockstep compute it
// once, though each step gives each of them a chunk.
func TestSharedPromptIsComputedOnce(t *testing.T) {
	for _, index := range indexes[:2] {
		p := newManager(t, 400, index.make)
		const same, whole, chunk = 320, 330, 64
		computed := 0
		seqs := make([]Seq, 8)
		for range whole / chunk * len(seqs) {
			for i := range seqs {
				s, tokens := &seqs[i], text(i+1, same, whole)
				if s.Len() == 0 {
					p.Open(s, Salt{}, tokens)
				} else {
					p.Extend(s, tokens)
				}
				n := min(chunk, whole-s.Len())
				if _, ok := p.Append(s, n, nil); !ok {
					t.Fatal("no room")
				}
				p.Publish(s, tokens)
				computed += n
			}
		}
		if want := same + len(seqs)*(whole-same); computed != want {
			t.Errorf("%s: %d tokens computed, want %d", index.name, computed, want)
		}
	}
}

// TestHashIsNeverTrusted files pages of different contents under one hash.
func TestHashIsNeverTrusted(t *testing.T) {
	c := newContents(4, 2)
	entries := []struct {
		before int32
		salt   uint64
		tokens []int32
	}{{none, 0, []int32{1, 2}}, {none, 0, []int32{1, 3}}, {none, 7, []int32{1, 2}}, {0, 0, []int32{1, 2}}}
	for page, e := range entries {
		c.set(int32(page), e.before, e.salt, e.tokens)
		c.file(int32(page), 42)
	}
	for page, e := range entries {
		if got := c.lookUp(42, e.before, e.salt, e.tokens); got != int32(page) {
			t.Errorf("%+v: found page %d, want %d", e, got, page)
		}
	}
	if got := c.lookUp(42, 1, 0, []int32{1, 2}); got != none {
		t.Errorf("found page %d for tokens that no page holds", got)
	}
}

func TestForkCopiesOnWrite(t *testing.T) {
	p := newManager(t, 8, Radix)
	var parent, child Seq
	compute(t, p, &parent, 0, text(1, 0, 20))
	p.Fork(&child, &parent)
	if p.Need(&child, 1)[0] != 1 || p.Available()[0] != 6 {
		t.Fatalf("the fork needs %v pages of %v", p.Need(&child, 1), p.Available())
	}
	copies, _ := p.Append(&child, 1, nil)
	if want := []Copy{{From: 1, To: 2}}; !reflect.DeepEqual(copies, want) {
		t.Errorf("copies %v, want %v", copies, want)
	}
	if copies, _ = p.Append(&parent, 1, nil); len(copies) != 0 {
		t.Errorf("the parent, alone on its last page now, copies %v", copies)
	}
	if got, want := p.Slots(nil, &child, 0, 1), int32(2*16+4); got[0] != want {
		t.Errorf("the child's token goes to slot %d, want %d", got[0], want)
	}
	if err := p.Check(&parent, &child); err != nil {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	for want, o := range map[string]Options{
		"a cache of 0 pages":              {PageSize: 16, Groups: []Group{{}}},
		"a cache of -1 pages":             {PageSize: 16, Groups: []Group{{Pages: -1}}},
		"of 0 tokens":                     {Groups: []Group{{Pages: 16}}},
		"slots must fit 32 bits":          {PageSize: 16, Groups: []Group{{Pages: 1 << 28}}},
		"with a window of -1":             {PageSize: 16, Groups: []Group{{Pages: 4}, {Pages: 4, Window: -1}}},
		"0 cache groups; 1 to 4":          {PageSize: 16},
		"5 cache groups; 1 to 4":          {PageSize: 16, Groups: make([]Group, 5)},
		"a slack of -2 tokens; 0 or more": {PageSize: 16, Groups: []Group{{Pages: 4}}, Slack: -2},
		"a cache of 9223372036854775807":  {PageSize: math.MaxInt, Groups: []Group{{Pages: math.MaxInt}}},
	} {
		o.Index = Radix
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; it should say %q", err, want)
		}
	}
}

// conversation is one request's life among others: it finds the system prompt, adds its own, answers, leaves.
func conversation(t testing.TB, p *Manager, s *Seq, tokens []int32, copies []Copy) {
	n := len(tokens) - p.Open(s, Salt{}, tokens)
	for step := range 40 {
		if step > 0 {
			n = 1
		}
		var ok bool
		if _, ok = p.Append(s, n, copies[:0]); !ok {
			t.Fatal("no room")
		}
		p.Publish(s, tokens)
		p.Trim(s)
		p.Snapshot(s, tokens)
	}
	p.Free(s)
}

func TestNoAllocations(t *testing.T) {
	for _, index := range indexes {
		p, err := New(Options{PageSize: 16, Groups: []Group{{Pages: 40, Window: 50}, {Pages: 64}, {Pages: 5, Recurrent: true}}, Index: index.make})
		if err != nil {
			t.Fatal(err)
		}
		var s Seq
		id, copies := 0, make([]Copy, 0, 4)
		tokens := text(0, 100, 300)
		one := func() {
			id++
			for i := 100; i < len(tokens); i++ {
				tokens[i] = int32(1000*id + i)
			}
			conversation(t, p, &s, tokens, copies)
		}
		one()
		if allocs := testing.AllocsPerRun(50, one); allocs != 0 {
			t.Errorf("%s: %v allocations per conversation", index.name, allocs)
		}
	}
}

// BenchmarkConversation is the account's work for a request of 300 prompt tokens, 100 of them shared, and 40 answered
// ones, in a pool that is full of older ones.
func BenchmarkConversation(b *testing.B) {
	for _, index := range indexes {
		b.Run(index.name, func(b *testing.B) {
			p := newManager(b, 4096, index.make)
			var s Seq
			id, copies := 0, make([]Copy, 0, 4)
			tokens := text(0, 100, 300)
			for b.Loop() {
				id++
				for i := 100; i < len(tokens); i++ {
					tokens[i] = int32(1000*id + i)
				}
				conversation(b, p, &s, tokens, copies)
			}
		})
	}
}

// BenchmarkMatch is looking for a prompt of 4,096 tokens that the index has: what admission costs at worst.
func BenchmarkMatch(b *testing.B) {
	for _, index := range indexes[:2] {
		b.Run(index.name, func(b *testing.B) {
			p := newManager(b, 1024, index.make)
			var s Seq
			tokens := text(1, 0, 4097)
			compute(b, p, &s, 0, tokens)
			for b.Loop() {
				if found, _ := p.Match(Salt{}, tokens); found != 4096 {
					b.Fatal(found)
				}
			}
		})
	}
}

// TestWindowedPrefix: what fell out of a window stays in the index until its page is needed; a text that goes on from there finds the
// rest, and one that parts where the window's pages are gone has to be computed from where they are not.
func TestWindowedPrefix(t *testing.T) {
	for _, index := range indexes[:2] {
		t.Run(index.name, func(t *testing.T) {
			m, err := New(Options{PageSize: 16, Groups: []Group{{Pages: 64}, {Pages: 12, Window: 32}}, Index: index.make})
			if err != nil {
				t.Fatal(err)
			}
			var a, b Seq
			long := text(1, 48, 161)
			for m.Open(&a, Salt{}, long); a.Len() < 161; {
				if _, ok := m.Append(&a, min(32, 161-a.Len()), nil); !ok {
					t.Fatal("no room")
				}
				m.Publish(&a, long)
			}
			m.Trim(&a)
			if got, want := m.Held(&a), (Pages{11, 3}); got != want {
				t.Errorf("the sequence holds %v pages, want %v", got, want)
			}
			for what, c := range map[string]struct {
				tokens []int32
				found  int
				idle   Pages
			}{
				"the same text":         {long, 160, Pages{0, 0}},
				"a shorter one":         {long[:100], 96, Pages{0, 2}},
				"one that parts at 48":  {text(2, 48, 100), 48, Pages{0, 2}},
				"one that parts at 150": {slices.Concat(long[:150], text(3, 0, 20)), 144, Pages{0, 1}},
			} {
				if found, idle := m.Match(Salt{}, c.tokens); found != c.found || idle != c.idle {
					t.Errorf("%s: %d tokens found, %v pages idle; want %d and %v", what, found, idle, c.found, c.idle)
				}
			}
			// Another text's windows take the pages that were let go of first: those of the first 96 tokens.
			other := text(4, 0, 97)
			m.Open(&b, Salt{}, other)
			if _, ok := m.Append(&b, 97, nil); !ok {
				t.Fatal("no room")
			}
			m.Publish(&b, other)
			for n, want := range map[int]int{161: 160, 129: 128, 113: 0, 97: 0} {
				if found, _ := m.Match(Salt{}, long[:n]); found != want {
					t.Errorf("of %d tokens %d are found, want %d", n, found, want)
				}
			}
			if err := m.Check(&a, &b); err != nil {
				t.Error(err)
			}
		})
	}
}
