package draft

import (
	"slices"
	"testing"
)

// TestSuffix: what follows the longest match is proposed, from the sequence and from ended texts of its salt; of several places, what most go on
// with; and no further than enough of them agree.
func TestSuffix(t *testing.T) {
	d := NewSuffix()
	propose := func(id int64, salt uint64, most int, tokens ...int32) []int32 {
		s := []Sequence{{ID: id, Salt: salt, Tokens: tokens, Max: most}}
		if err := d.Propose(s); err != nil {
			t.Fatal(err)
		}
		return s[0].Draft.Tokens
	}
	check := func(what string, got []int32, want ...int32) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("its own beginning", propose(1, 0, 3, 5, 6, 7, 8, 9, 4, 5, 6, 7), 8, 9, 4)
	check("no further than the match is long", propose(2, 0, 9, 5, 6, 7, 8, 9, 4, 5, 6), 7, 8)
	check("nothing like it", propose(3, 0, 9, 5, 6, 7))
	for i, next := range []int32{20, 21, 21, 22} {
		id := int64(10 + i)
		propose(id, 7, 5, 1, 2, 3)
		d.Forget(id, []int32{1, 2, 3, next, 30})
		if i == 0 {
			check("an ended text", propose(99, 7, 5, 9, 1, 2, 3), 20, 30)
			d.Forget(99, nil)
		}
	}
	check("what most go on with", propose(30, 7, 5, 9, 1, 2, 3), 21, 30)
	check("texts of another salt", propose(31, 8, 5, 9, 1, 2, 3))
	for i := range int64(40) { // of as many places as are looked at, none agree
		propose(100+i, 9, 5, 1, 2)
		d.Forget(100+i, []int32{1, 2, int32(50 + i)})
	}
	check("no agreement", propose(200, 9, 5, 9, 1, 2))
	for i := range int64(2 * mostCorpora) {
		propose(1000+i, uint64(100+i), 1, 1, 2)
		d.Forget(1000+i, []int32{1, 2, 3})
	}
	if n := len(d.(*suffix).texts); n > mostCorpora {
		t.Errorf("texts of %d salts are kept", n)
	}
	long := make([]int32, corpusSize)
	for i := range long {
		long[i] = int32(i % 1000)
	}
	for i := range int64(3) {
		propose(5000+i, 7, 1, 1, 2)
		d.Forget(5000+i, long)
	}
	if n := len(d.(*suffix).texts[7].tokens); n > corpusSize {
		t.Errorf("%d tokens of texts are kept", n)
	}
}

// TestIndexMemory: an index of a short text keeps its memory for the next, one of a long text does not.
func TestIndexMemory(t *testing.T) {
	var x ngramIndex
	for _, n := range []int{100, 10 * keptIndex} {
		tokens := make([]int32, n)
		for i := range tokens {
			tokens[i] = int32(i % 50)
		}
		x.extend(tokens, 3)
		if x.head(tokens[:3]) == 0 {
			t.Errorf("%d tokens: what comes again is not found", n)
		}
		x.reset()
		if kept := cap(x.last) + cap(x.prev); x.head(tokens[:3]) != 0 || kept > 3*keptIndex || (kept == 0) != (n > keptIndex) {
			t.Errorf("%d tokens: an empty index has room for %d places", n, kept)
		}
	}
}
