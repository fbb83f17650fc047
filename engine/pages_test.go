package engine

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/graph"
)

// TestWindowNeverRunsOut: with the pages that newManager asks for, no step lacks one of a group with a window while the main group has
// enough, whatever sequences move by how much, share, part or end; and with a page less newManager refuses.
func TestWindowNeverRunsOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lim := backend.Limits{PageSize: rapid.IntRange(1, 5).Draw(t, "page size"), Seqs: rapid.IntRange(1, 4).Draw(t, "sequences"), SeqPages: 40}
		lim.Tokens = lim.Seqs + rapid.SampledFrom([]int{0, 1, 2, 5, 40}).Draw(t, "step tokens")
		lim.Pages = rapid.IntRange(1, lim.Seqs*lim.SeqPages).Draw(t, "pages")
		groups := []graph.CacheGroup{{Window: rapid.IntRange(1, 14).Draw(t, "window")}, {}}
		shape := graph.CacheShape{Seqs: lim.Seqs, Tokens: lim.SeqPages * lim.PageSize, StepTokens: lim.Tokens, PageSize: lim.PageSize}
		need := min(lim.Pages, groups[0].StepPages(shape))
		lim.Groups = []backend.GroupLimits{{Window: groups[0].Window, Pages: need - 1}, {Pages: lim.Pages}}
		if _, _, err := newManager(groups, lim, 0, kv.Radix); err == nil {
			t.Fatalf("%d pages of a window were taken, and %d are needed", need-1, need)
		}
		lim.Groups[0].Pages = need
		m, main, err := newManager(groups, lim, 0, kv.Radix)
		if err != nil || main != 1 {
			t.Fatal(main, err)
		}
		seqs := make([]kv.Seq, lim.Seqs)
		tokens := make([]int32, lim.SeqPages*lim.PageSize+1)
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				budget := lim.Tokens
				for i := range seqs {
					m.Trim(&seqs[i])
				}
				for i := range seqs {
					s := &seqs[i]
					if s.Len() == 0 {
						m.Open(s, kv.Salt{Own: rapid.Uint64Range(0, 2).Draw(t, "salt")}, tokens[:min(len(tokens), rapid.SampledFrom([]int{1, 12, 60}).Draw(t, "prompt"))])
					}
					n := min(budget, shape.Tokens-s.Len(), rapid.SampledFrom([]int{0, 1, 1, 3, 100}).Draw(t, "tokens"))
					if n == 0 || m.Need(s, n)[main] > m.Available()[main] {
						continue
					}
					if _, ok := m.Append(s, n, nil); !ok {
						t.Fatalf("%d tokens after %d need %v pages of %v available", n, s.Len(), m.Need(s, n), m.Available())
					}
					budget -= n
					if rapid.Bool().Draw(t, "publish") {
						m.Publish(s, tokens)
					}
				}
			},
			"end": func(t *rapid.T) { m.Free(&seqs[rapid.IntRange(0, len(seqs)-1).Draw(t, "which")]) },
			"fork": func(t *rapid.T) {
				from, to := rapid.IntRange(0, len(seqs)-1).Draw(t, "from"), rapid.IntRange(0, len(seqs)-1).Draw(t, "to")
				if seqs[to].Len() == 0 && seqs[from].Len() > 0 {
					m.Fork(&seqs[to], &seqs[from])
				}
			},
		})
	})
}
