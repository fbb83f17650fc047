package cpu

import (
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
)

// TestChooseScaleGroups: the launches that write and read a value in Q8 get the smallest of their groups, until others write to its memory.
func TestChooseScaleGroups(t *testing.T) {
	mem := &memory{}
	at := func(i int) backend.Buffer { return backend.Buffer{Mem: mem, Off: int64(100 * i), Len: 100} }
	makes := func(i, most int) backend.Launch {
		return &launch{accesses: []access{{at: at(9)}, {at: at(i), write: true}}, q8: scaleGroups{producer: true, largest: most, group: -1}}
	}
	reads := func(i, most int) backend.Launch {
		return &launch{accesses: []access{{at: at(i)}, {at: at(8), write: true}}, q8: scaleGroups{largest: most, group: -1}}
	}
	list := []backend.Launch{
		makes(0, 2048), reads(0, 128), makes(1, 128), reads(0, 64), reads(1, 128), // 64 and 128, one inside the other
		makes(0, 2048), reads(0, 128), reads(0, 0), // one reads Q8 blocks only
		makes(0, 32), reads(0, 128), // divided in small columns
		makes(1, 2048), // read by no launch
	}
	var got []int
	for _, l := range chooseScaleGroups(list) {
		got = append(got, l.group)
	}
	if want := []int{64, 64, 128, 64, 128, 0, 0, 0, 32, 32, 0}; !slices.Equal(got, want) {
		t.Errorf("groups are %v, want %v", got, want)
	}
}

// TestColumnMultiple: columns are divided in groups of numbers where every worker gets four of them or more.
func TestColumnMultiple(t *testing.T) {
	for _, c := range [][3]int{{8192, 2, 128}, {8192, 32, 64}, {8192, 33, 32}, {64 * 9, 2, 64}, {96, 1, 32}, {1024, 2, 128}, {512, 2, 64}, {128, 1, 32}} {
		if got := columnMultiple(c[0], c[1]); got != c[2] {
			t.Errorf("%d columns are divided among %d workers in steps of %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
