package cpu

import (
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
)

// TestFuseRowBlocks: runs end at a barrier and at a launch that is not row-wise.
func TestFuseRowBlocks(t *testing.T) {
	pass, product := &launch{rowBlocks: true}, &launch{}
	list := []backend.Launch{pass, pass, product, product, pass, pass, pass}
	wait := []bool{false, false, true, false, true, false, true}
	if got, want := fuseRowBlocks(list, wait), []int{2, 0, 1, 1, 2, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("the runs are %v; %v is right", got, want)
	}
}

// TestRowBlock gives every row of a worker's share to exactly one part, also where there are fewer rows than parts.
func TestRowBlock(t *testing.T) {
	for rows := range 40 {
		for parts := 1; parts < 9; parts++ {
			at := 3
			for part := range parts {
				from, to := (&worker{block: part, blocks: parts}).rowBlock(3, 3+rows)
				if from != at || to < from {
					t.Fatalf("part %d of %d of %d rows is [%d, %d), after %d", part, parts, rows, from, to, at)
				}
				at = to
			}
			if at != 3+rows {
				t.Fatalf("%d parts end at %d; the rows end at %d", parts, at, 3+rows)
			}
		}
	}
}
