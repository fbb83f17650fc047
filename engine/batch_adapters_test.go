package engine

import (
	"slices"
	"testing"
)

// TestSortByAdapter: requests with the same first adapter are one behind the other in a step, in the order in which they were scheduled.
func TestSortByAdapter(t *testing.T) {
	f, ids := &InFlight{}, []int64{}
	for i, slot := range []int{2, -1, 0, 2, 1, -1, 0, 2} {
		r := &request{}
		if r.sched.ID = int64(i); slot >= 0 {
			r.Adapters, r.slots = []AdapterUse{{}}, []int{slot}
		}
		f.requests = append(f.requests, advance{request: r})
	}
	f.sortByAdapter()
	for _, a := range f.requests {
		ids = append(ids, a.request.sched.ID)
	}
	if want := []int64{1, 5, 2, 6, 4, 0, 3, 7}; !slices.Equal(ids, want) {
		t.Errorf("%v; want %v", ids, want)
	}
}
