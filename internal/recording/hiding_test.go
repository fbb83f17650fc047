package recording

import (
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/engine/draft"
)

// TestHiding: hidden sequences of one salt begin alike for as long as the real ones do, and their prompts and answers are one sequence; those of another
// salt, or under another key, have nothing in common; no token is what it was.
func TestHiding(t *testing.T) {
	h := newHiding(1 << 30)
	prompt := []int32{5, 5, 7, 9}
	a := h.admitted(1, false, 1, prompt)
	if b := h.admitted(2, false, 1, []int32{5, 5, 7, 8, 9}); !slices.Equal(a[:3], b[:3]) || a[3] == b[3] || len(b) != 5 || a[0] == a[1] {
		t.Errorf("%v and %v", a, b)
	}
	answer := h.output(1, []int32{4, -1, 3})
	whole := h.admitted(3, false, 1, append(slices.Clone(prompt), 4, 3))
	if answer[1] != -1 || !slices.Equal(whole, []int32{a[0], a[1], a[2], a[3], answer[0], answer[2]}) {
		t.Errorf("the answer is %v behind %v; as a prompt %v", answer, a, whole)
	}
	for _, other := range [][]int32{h.admitted(4, false, 2, prompt), newHiding(1<<30).admitted(1, false, 1, prompt), prompt} {
		for i := range other {
			if other[i] == a[i] {
				t.Errorf("%v and %v have a token in common", a, other)
			}
		}
	}
	if shown := h.admitted(0, true, 1, prompt); !slices.Equal(shown, prompt) || !slices.Equal(h.output(0, []int32{4}), []int32{4}) || !slices.Equal(h.draft(0, draft.Draft{Tokens: prompt}), prompt) {
		t.Errorf("of a request that is shown %v is recorded", shown)
	}
	// A draft says what the answer does where it is right, on each path of a tree, and commits to nothing.
	line := h.draft(1, draft.Draft{Tokens: []int32{2, 6, 8}})
	tree := h.draft(1, draft.Draft{Tokens: []int32{2, 6, 7, 8}, Parents: []int{-1, 0, 0, 1}})
	next := h.output(1, []int32{2, 6, 9})
	if !slices.Equal(next[:2], line[:2]) || next[2] == line[2] || !slices.Equal(tree, []int32{line[0], line[1], tree[2], line[2]}) || tree[2] == tree[1] || line[0] == 2 {
		t.Errorf("the drafts %v and %v before %v", line, tree, next)
	}
	for id := range int64(5) {
		h.ended(id)
	}
	for _, n := range []uint32{1, 2, 3, 5, 100, 256, 257, 1000} { // each token once: tokens that differ stay apart
		seen, c := map[uint32]bool{}, chain{byte(n)}
		for x := range n {
			if y := c.permuted(x, n); y >= n || seen[y] {
				t.Errorf("of %d, %d becomes %d, which is there or too large", n, x, y)
			} else {
				seen[y] = true
			}
		}
	}
	if len(h.state)+len(h.shown) > 0 || h.output(1, prompt) != nil {
		t.Error("what has ended is remembered")
	}
}
