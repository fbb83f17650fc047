package cpu

import (
	"testing"

	"github.com/ridge-llm/ridge/backend"
)

// TestSplitKV: sequences that decode become tasks of few KV segments each; those with a common prefix of pages share the
// tasks of the segments they have in common; one that does not fit into the memory for partial results is not split.
func TestSplitKV(t *testing.T) {
	const seqPages = 64
	b := &backend.Batch{}
	b.Reset(1, seqPages)
	table := b.Table(0)
	for s, position := range []int32{600, 700, 600, 5, 1000} {
		b.Tokens, b.Positions = append(b.Tokens, 0), append(b.Positions, position)
		b.QStart, b.KVLen = append(b.QStart, int32(s+1)), append(b.KVLen, position+1)
		for p := range int32(seqPages) {
			if s == 2 && p < 33 { // two segments and a page of sequence 0
				table.Pages = append(table.Pages, p)
			} else {
				table.Pages = append(table.Pages, int32(s*seqPages)+p)
			}
		}
	}
	s := (&Device{splits: map[splitShape]*splitKV{}}).splitFor(splitShape{rows: 8, partialRows: 10, pageSize: 16, tasks: 8})
	tasks, combines := s.of(b, 1)
	type key struct{ seq, from, to int32 }
	got := map[key]int{}
	for _, k := range tasks {
		got[key{k.seq, k.from, k.to}] = len(k.rows)
	}
	want := map[key]int{
		{0, 0, 1}: 2, {0, 1, 2}: 2, {0, 2, 3}: 1, // shared by sequences 0 and 2
		{1, 0, 1}: 1, {1, 1, 2}: 1, {1, 2, 3}: 1,
		{2, 2, 3}: 1,
		{3, 0, 1}: 1, // one segment is not split
		{4, 0, 4}: 1, // four more partialRows are more than ten
	}
	if len(got) != len(want) || len(tasks) != len(want) {
		t.Errorf("%d tasks %v; %v is right", len(tasks), got, want)
	}
	for k, n := range want {
		if got[k] != n {
			t.Errorf("task %v has %d tokens, %d is right", k, got[k], n)
		}
	}
	if len(combines) != 3 {
		t.Errorf("%d tokens are combined, 3 is right", len(combines))
	}
	fewer := (&Device{splits: map[splitShape]*splitKV{}}).splitFor(splitShape{rows: 8, partialRows: 10, pageSize: 16, tasks: 3})
	longer, _ := fewer.of(b, 1)
	if first := longer[0]; len(longer) != 7 || first.from != 0 || first.to != 2 || len(first.rows) != 2 {
		t.Errorf("%d tasks, of which the first is %+v; of seven it has segments 0 and 1 of two tokens", len(longer), first)
	}
	if again, _ := s.of(&backend.Batch{}, 1); len(again) != len(tasks) {
		t.Error("a second layer of the step made the split anew")
	}
	if allocs := testing.AllocsPerRun(10, func() { s.make(b) }); allocs != 0 {
		t.Errorf("making a split allocates %g times", allocs)
	}
}
