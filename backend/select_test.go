package backend

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSelectTop: the scores that come first are the highest, with many equal ones, in any order, for any k; nothing is lost. Long runs in
// order and organ pipes are what dividing by medians takes long for.
func TestSelectTop(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 400 {
		n := 1 + r.IntN(300)
		x := make([]Scored, n)
		for j := range x {
			x[j] = Scored{float32(r.IntN(1 + n/3)), int32(j)}
			switch i % 4 {
			case 1:
				x[j].Score = float32(j)
			case 2:
				x[j].Score = float32(min(j, n-j))
			}
		}
		sorted := slices.Clone(x)
		slices.SortFunc(sorted, func(a, b Scored) int { return int(b.Score - a.Score) })
		k := r.IntN(n + 1)
		SelectTop(x, k)
		got := slices.Clone(x[:k])
		slices.SortFunc(got, func(a, b Scored) int { return int(b.Score - a.Score) })
		for j := range got {
			if got[j].Score != sorted[j].Score {
				t.Fatalf("%d of %d: place %d has %g, want %g", k, n, j, got[j].Score, sorted[j].Score)
			}
		}
		seen := map[int32]bool{}
		for _, s := range x {
			seen[s.At] = true
		}
		if len(seen) != n {
			t.Fatalf("%d of %d candidates are left", len(seen), n)
		}
	}
	all := make([]Scored, 200)
	for j := range all {
		all[j] = Scored{float32(j * 7 % 50), int32(j)}
	}
	heapSelect(all, 20)
	for _, s := range all[20:] {
		for _, kept := range all[:20] {
			if before(s, kept) {
				t.Fatalf("%g was left out for %g", s.Score, kept.Score)
			}
		}
	}
}
