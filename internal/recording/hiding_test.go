package recording

import (
	"slices"
	"testing"
)

// TestHiding: hidden sequences of one salt begin alike for as long as the real ones do, and their prompts and answers are one sequence; those of another
// salt, or under another key, have nothing in common; no token is what it was.
func TestHiding(t *testing.T) {
	h := newHiding(1 << 30)
	prompt := []int32{5, 5, 7, 9}
	a := h.admitted(1, 1, prompt)
	if b := h.admitted(2, 1, []int32{5, 5, 7, 8, 9}); !slices.Equal(a[:3], b[:3]) || a[3] == b[3] || len(b) != 5 || a[0] == a[1] {
		t.Errorf("%v and %v", a, b)
	}
	answer := h.output(1, []int32{4, -1, 3})
	whole := h.admitted(3, 1, append(slices.Clone(prompt), 4, 3))
	if answer[1] != -1 || !slices.Equal(whole, []int32{a[0], a[1], a[2], a[3], answer[0], answer[2]}) {
		t.Errorf("the answer is %v behind %v; as a prompt %v", answer, a, whole)
	}
	for _, other := range [][]int32{h.admitted(4, 2, prompt), newHiding(1<<30).admitted(1, 1, prompt), prompt} {
		for i := range other {
			if other[i] == a[i] {
				t.Errorf("%v and %v have a token in common", a, other)
			}
		}
	}
	for id := range int64(5) {
		h.ended(id)
	}
	if len(h.state) > 0 || h.output(1, prompt) != nil {
		t.Error("what has ended is remembered")
	}
}
