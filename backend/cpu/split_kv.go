package cpu

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/attn"
	"github.com/ridge-llm/ridge/quant"
)

// splitKV is how a step's attention is divided into tasks: which query tokens read which KV segments of which sequence
// together. All layers of a shape share it, so it is computed once a step, by the first worker that asks.
//
// A sequence that computes many tokens (prefill) becomes one task per tile of tokens. One that computes few (decode) is split: it
// becomes a task per few KV segments, so that all workers can help with a long context, and their partial results are combined
// (split-KV, as in FlashDecoding); where several such sequences have a common prefix of pages, one task for the shared
// segments computes all of them, and the pages are read once.
type splitKV struct {
	shape    splitShape
	step     atomic.Uint32 // number of the step that the rest is for
	mu       sync.Mutex
	tasks    []task
	combines []combine
	rows     []int32        // of all tasks
	seen     []backend.Keys // of each token
	at       []int32        // positions of the last keys of tokens whose keys lie apart
	apart    []int          // of each token, where those before it end in at
	partial  []int32        // of each token that is split: its first partial result
	leader   map[int32]int  // by first page, the sequence that reads shared segments for others
	shared   []int          // of each sequence, segments that its leader reads
	next     []int          // of each sequence, the next one with the same leader; 0: none
	whole    []bool         // of each sequence: it is not split
	group    int32          // most segments of a task of a sequence that is split
}

// splitShape is what the division depends on beside the batch.
type splitShape struct {
	mask        backend.Mask // of bidirectional ones no sequence is split
	group       int          // of caches: its page table says what sequences share
	rows        int          // tokens in a task
	partialRows int          // partial results that there is memory for
	pageSize    int
	tasks       int // tasks to aim for, so that all workers finish at about the same time; no more, since each has a cost
	// lines has branches of token trees computed as lines, so that sums run in the order in which they run without a tree; see backend.Keys.Line.
	lines bool
}

// task is some tokens against segments [from, to) of a sequence's keys.
type task struct {
	rows     []int32
	seq      int32
	from, to int32
	split    bool // results are partial, to be merged
}

// combine is a token with its partial results.
type combine struct{ row, partial, segments int32 }

// splitFor is the device's split of a shape.
func (d *Device) splitFor(shape splitShape) *splitKV {
	if d.splits[shape] == nil {
		d.splits[shape] = &splitKV{shape: shape, leader: map[int32]int{}}
	}
	return d.splits[shape]
}

// of is the batch's tasks and combines; step numbers the batch and is never 0.
func (s *splitKV) of(b *backend.Batch, step uint32) ([]task, []combine) {
	if s.step.Load() != step {
		s.mu.Lock()
		if s.step.Load() != step {
			s.make(b)
			s.step.Store(step)
		}
		s.mu.Unlock()
	}
	return s.tasks, s.combines
}

// firstSegment is where a token's keys start.
func (s *splitKV) firstSegment(row int) int { return s.seen[row].Low / attn.Segment }

// lastSegment is where they end.
func (s *splitKV) lastSegment(row int) int { return (s.seen[row].High - 1) / attn.Segment }

// segmentsOf is the first and the last segment that any of a sequence's tokens attends to: where keys are on several devices (Batch.Seen) it need not be
// its first token that goes back furthest, nor its last that sees most.
func (s *splitKV) segmentsOf(b *backend.Batch, q int) (first, last int) {
	row, end := int(b.QStart[q]), int(b.QStart[q+1])
	first, last = s.firstSegment(row), s.lastSegment(row)
	for row++; row < end; row++ {
		first, last = min(first, s.firstSegment(row)), max(last, s.lastSegment(row))
	}
	return first, last
}

func (s *splitKV) make(b *backend.Batch) {
	s.tasks, s.combines, s.rows = s.tasks[:0], s.combines[:0], s.rows[:0]
	s.partial = append(s.partial[:0], b.Tokens...) // for its length
	s.shared, s.next, s.whole = s.shared[:0], s.next[:0], s.whole[:0]
	clear(s.leader)
	s.see(b)
	room, segments := s.shape.partialRows, 0
	for q := range b.Seqs() {
		need := s.partialsNeeded(b, q)
		whole := need == 0 || need > room
		s.whole, s.shared, s.next = append(s.whole, whole), append(s.shared, 0), append(s.next, 0)
		if !whole {
			s.reservePartials(b, q, s.shape.partialRows-room)
			room -= need
			s.sharePrefix(b, q)
			first, last := s.segmentsOf(b, q)
			segments += last + 1 - max(first, s.shared[q])
		}
	}
	s.group = int32(segments / s.shape.tasks)
	for q := range b.Seqs() {
		if s.whole[q] {
			s.wholeTasks(b, q)
		} else {
			s.splitTasks(b, q)
		}
	}
}

// see notes which keys each token attends to.
func (s *splitKV) see(b *backend.Batch) {
	s.seen, s.at, s.apart = s.seen[:0], s.at[:0], append(s.apart[:0], 0)
	for q := range b.Seqs() {
		for r := b.QStart[q]; r < b.QStart[q+1]; r++ {
			k := b.KeysOf(q, int(r), s.shape.mask)
			if s.shape.lines {
				k, s.at = k.Line(s.at)
			}
			s.seen, s.apart = append(s.seen, k), append(s.apart, len(s.at))
		}
	}
}

// newest is the first key of a token's group in a cache of I4: see backend.Keys.Group. A branch of a token tree that counts as a line is of the group that the tree begins in.
func (s *splitKV) newest(row int) int {
	k := s.seen[row]
	if n := len(s.line(row)); n > 0 {
		k.Base = k.High - n
	}
	return k.Group(quant.Int4Group)
}

// line is the positions of a token's last keys; none: all keys are where they are in the text.
func (s *splitKV) line(row int) []int32 { return s.at[s.apart[row]:s.apart[row+1]] }

// need is how many partial results a sequence has when it is split; 0 when there is no use in splitting it.
func (s *splitKV) partialsNeeded(b *backend.Batch, q int) int {
	first, end := int(b.QStart[q]), int(b.QStart[q+1])
	if s.shape.mask.Bidirectional || end-first > s.shape.rows || s.apart[first] < s.apart[end] {
		return 0
	}
	if from, to := s.segmentsOf(b, q); from == to {
		return 0
	}
	n := 0
	for r := first; r < end; r++ {
		n += s.lastSegment(r) - s.firstSegment(r) + 1
	}
	return n
}

// reserve gives the sequence's tokens their partial results.
func (s *splitKV) reservePartials(b *backend.Batch, q, at int) {
	for r := int(b.QStart[q]); r < int(b.QStart[q+1]); r++ {
		n := s.lastSegment(r) - s.firstSegment(r) + 1
		s.partial[r] = int32(at)
		s.combines = append(s.combines, combine{int32(r), int32(at), int32(n)})
		at += n
	}
}

// share finds an earlier sequence with the same first pages, and how many whole segments of them both can see all of.
func (s *splitKV) sharePrefix(b *backend.Batch, q int) {
	if s.shape.mask.Window != 0 {
		return
	}
	table := b.Table(s.shape.group).Pages
	mine := table[q*b.SeqPages : (q+1)*b.SeqPages]
	l, ok := s.leader[mine[0]]
	if !ok {
		s.leader[mine[0]] = q
		return
	}
	theirs := table[l*b.SeqPages : (l+1)*b.SeqPages]
	seen := min(b.Past(q), b.Past(l))
	pages := 0
	for (pages+1)*s.shape.pageSize <= seen && mine[pages] == theirs[pages] {
		pages++
	}
	if s.shared[q] = pages * s.shape.pageSize / attn.Segment; s.shared[q] > 0 {
		s.next[q], s.next[l] = s.next[l], q
	}
}

// tiles makes the tasks of a sequence that is not split. A token whose keys lie apart has one of its own.
func (s *splitKV) wholeTasks(b *backend.Batch, q int) {
	from := len(s.rows)
	for r := int(b.QStart[q]); r < int(b.QStart[q+1]); r++ {
		apart := len(s.line(r)) > 0
		if apart || len(s.rows)-from == s.shape.rows {
			s.wholeTask(q, from)
			from = len(s.rows)
		}
		if s.rows = append(s.rows, int32(r)); apart {
			s.wholeTask(q, from)
			from = len(s.rows)
		}
	}
	s.wholeTask(q, from)
}

// wholeTask makes the task of the rows from there on, if there are any.
func (s *splitKV) wholeTask(q, from int) {
	rows := s.rows[from:len(s.rows):len(s.rows)]
	if len(rows) == 0 {
		return
	}
	first, last := s.firstSegment(int(rows[0])), s.lastSegment(int(rows[0]))
	for _, r := range rows[1:] { // those of token trees do not come in the order of their text
		first, last = min(first, s.firstSegment(int(r))), max(last, s.lastSegment(int(r)))
	}
	s.tasks = append(s.tasks, task{rows, int32(q), int32(first), int32(last + 1), false})
}

// segments makes the tasks of a sequence that is split: its own segments, and with them those that it leads.
func (s *splitKV) splitTasks(b *backend.Batch, q int) {
	from, to := s.segmentsOf(b, q)
	for seg := max(from, s.shared[q]); seg <= to; seg++ {
		from := len(s.rows)
		for r := int(b.QStart[q]); r < int(b.QStart[q+1]); r++ {
			if s.firstSegment(r) <= seg && seg <= s.lastSegment(r) {
				s.add(r, q, seg, &from)
			}
		}
		for other := s.next[q]; other != 0 && s.shared[q] == 0; other = s.next[other] {
			if s.shared[other] > seg {
				for r := b.QStart[other]; r < b.QStart[other+1]; r++ {
					s.add(int(r), q, seg, &from)
				}
			}
		}
		s.flush(q, seg, from)
	}
}

// add brings a token into the task being made, whose rows start at from; a full one is finished first.
func (s *splitKV) add(row, q, seg int, from *int) {
	if len(s.rows)-*from == s.shape.rows {
		s.flush(q, seg, *from)
		*from = len(s.rows)
	}
	s.rows = append(s.rows, int32(row))
}

// flush finishes a task of one segment, or adds the segment to the last task if that has the same tokens.
func (s *splitKV) flush(q, seg, from int) {
	rows := s.rows[from:len(s.rows):len(s.rows)]
	if len(rows) == 0 {
		return
	}
	if n := len(s.tasks); n > 0 {
		last := &s.tasks[n-1]
		if last.seq == int32(q) && last.to == int32(seg) && last.to-last.from < s.group && slices.Equal(last.rows, rows) {
			last.to++
			s.rows = s.rows[:from]
			return
		}
	}
	s.tasks = append(s.tasks, task{rows, int32(q), int32(seg), int32(seg + 1), true})
}
