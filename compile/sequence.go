package compile

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/comm"
	"github.com/ridge-llm/ridge/graph"
)

// sequence is one of several devices that divide the rows of every step. What follows from a step's batch is made once for all of its nodes.
type sequence struct {
	graph.Sequence
	peers comm.Communicator
	zigzag
	limits, all backend.Limits // of this device, and of all together
	rows        [][]int32      // of each device: its rows of the step, ascending
	first       []int32        // of each device's rows, and the end of the last's, where they are divided in order
	every       []int32        // row of the step
	seqOf       []int32        // of each of them
	local       backend.Batch
	ordered     backend.Batch // see whole
	moved       []int32       // of each row of the step, its number device by device
	logits      []int32
	// Rows that have come to this device's experts: see dispatch.
	arrived backend.Batch
	to      []int32 // of each sequence of the step: its number in local; -1: it has no rows here

	read, made, sent, got []float32 // of the exchange that runs
}

// grown is n numbers in a list's memory, or in more.
func grown(list *[]float32, n int) []float32 {
	if cap(*list) < n {
		*list = make([]float32, n)
	}
	return (*list)[:n]
}

// newSequence is for a program's graph, whose rows are divided, and pages of so many tokens on the device.
func newSequence(s graph.Sequence, peers comm.Communicator, pageSize int) (*sequence, error) {
	if peers == nil || peers.Size() != s.Ranks || peers.Rank() != s.Rank {
		return nil, fmt.Errorf("compile: the graph is of device %d of %d that divide rows, and the program has no group of them", s.Rank, s.Ranks)
	}
	x := &sequence{Sequence: s, peers: peers, rows: make([][]int32, s.Ranks)}
	if s.Split {
		x.zigzag = zigzag{s.Ranks, pageSize / 2}
	}
	return x, nil
}

// divide finds each device's rows of a step, and makes the batch of this one's.
func (s *sequence) divide(b *backend.Batch) {
	s.seqOf, s.every = s.seqOf[:0], s.every[:0]
	for i := range s.rows {
		s.rows[i] = s.rows[i][:0]
	}
	all := len(b.Tokens)
	for q := range b.Seqs() {
		first, of := b.Past(q)-int(b.QStart[q]), 0
		if s.Own {
			of = b.RankOf(s.all, q)
		}
		for r := b.QStart[q]; r < b.QStart[q+1]; r++ {
			s.seqOf, s.every = append(s.seqOf, int32(q)), append(s.every, r)
			owner := int(r) * s.Ranks / all // as many rows each
			switch {
			case s.Own:
				owner = of
			case s.Split:
				owner = s.owner(first + int(r))
			}
			s.rows[owner] = append(s.rows[owner], r)
		}
	}
	s.first = append(s.first[:0], 0)
	for _, rows := range s.rows {
		s.first = append(s.first, s.first[len(s.first)-1]+int32(len(rows)))
	}
	s.take(b)
}

// whole is the step's batch for what computes rows of all devices, and the rows whose logits are wanted, counted device by device as first counts them. Where devices have sequences of their own, pages
// and states are of each, and it has none.
func (s *sequence) whole(b *backend.Batch) (all *backend.Batch, logits []int32) {
	if !s.Own {
		return b, b.LogitsIndices
	}
	s.ordered = *b
	s.ordered.Tables = nil
	s.moved = append(s.moved[:0], b.Tokens...) // of that length
	at := int32(0)
	for _, rows := range s.rows {
		for _, r := range rows {
			s.moved[r], at = at, at+1
		}
	}
	s.logits = s.logits[:0]
	for _, r := range b.LogitsIndices {
		s.logits = append(s.logits, s.moved[r])
	}
	return &s.ordered, s.logits
}

// holds makes the number of a page among those of all devices that among this one's; false: it is another one's.
func (p *Program) holds(group int, page *int32) bool {
	if p.seq == nil || !p.seq.Own {
		return true
	}
	n := int32(p.limits.GroupPages(group))
	*page -= int32(p.seq.Rank) * n
	return *page >= 0 && *page < n
}

// take makes the batch of this device's rows. It has page tables where each device has sequences of its own; else nothing attends with it.
func (s *sequence) take(b *backend.Batch) {
	l, own := &s.local, s.rows[s.Rank]
	l.Reset(len(b.Tables), 0)
	l.FutureTokens = b.FutureTokens
	s.to = s.to[:0]
	for range b.Seqs() {
		s.to = append(s.to, -1)
	}
	for i, r := range own {
		if q := s.seqOf[r]; s.to[q] < 0 {
			if s.to[q] = int32(len(l.KVLen)); i > 0 {
				l.QStart = append(l.QStart, int32(i))
			}
			l.KVLen, l.RopeLen = append(l.KVLen, b.KVLen[q]), append(l.RopeLen, b.RopeLen[q])
			if s.Own {
				s.takeTables(b, int(q))
			}
		}
		l.Tokens = append(l.Tokens, b.Tokens[r])
		if len(b.Segments) > 0 {
			l.Segments = append(l.Segments, b.Segments[r])
		}
		if s.Own && len(b.Ancestors) > 0 {
			l.Ancestors = append(l.Ancestors, b.Ancestors[r])
		}
	}
	if len(own) > 0 {
		l.QStart = append(l.QStart, int32(len(own)))
	}
	for axis := 0; axis < len(b.Positions); axis += len(b.Tokens) {
		for _, r := range own {
			l.Positions = append(l.Positions, b.Positions[axis+int(r)])
		}
	}
	for i := range b.Tables {
		if len(b.Tables[i].Slots) > 0 {
			s.takeSlots(i, b.Tables[i].Slots)
		}
	}
	s.takeEmbeddings(b)
	s.takeAdapters(b)
}

// takeTables is where a sequence of this device's own is, by the device's numbers of pages.
func (s *sequence) takeTables(b *backend.Batch, q int) {
	l := &s.local
	l.SeqPages = b.SeqPages
	if len(b.TreeLen) > 0 {
		l.TreeLen = append(l.TreeLen, b.TreeLen[q])
	}
	for i := range b.Tables {
		from, to := &b.Tables[i], &l.Tables[i]
		n := int32(s.limits.GroupPages(i))
		if len(from.States) > 0 {
			to.States = append(to.States, from.States[q]-int32(s.Rank)*n)
			continue
		}
		for _, page := range from.Pages[q*b.SeqPages : (q+1)*b.SeqPages] {
			if page -= int32(s.Rank) * n; page < 0 || page >= n { // behind the sequence's end there may be anything
				page = 0
			}
			to.Pages = append(to.Pages, page)
		}
	}
}

// takeSlots is where this device's rows are written.
func (s *sequence) takeSlots(group int, slots []int32) {
	t := &s.local.Tables[group]
	for _, r := range s.rows[s.Rank] {
		slot := slots[r]
		switch {
		case s.Own:
			slot -= int32(s.Rank * s.limits.GroupPages(group) * s.limits.PageSize)
		case s.Split:
			slot = int32(s.slot(s.Rank, int(slot)))
		}
		t.Slots = append(t.Slots, slot)
	}
}

// takeEmbeddings is which of this device's rows are given as embeddings.
func (s *sequence) takeEmbeddings(b *backend.Batch) {
	l := &s.local
	if len(b.EmbeddingRows) == 0 {
		return
	}
	width := len(b.Embeddings) / len(b.EmbeddingRows)
	place := map[int32]int32{}
	for i, r := range s.rows[s.Rank] {
		place[r] = int32(i)
	}
	for i, r := range b.EmbeddingRows {
		if at, own := place[r]; own {
			l.EmbeddingRows = append(l.EmbeddingRows, at)
			l.Embeddings = append(l.Embeddings, b.Embeddings[i*width:(i+1)*width]...)
		}
	}
}

// takeAdapters is the adapters of this device's rows.
func (s *sequence) takeAdapters(b *backend.Batch) {
	l := &s.local
	for _, a := range b.Adapters {
		q := s.to[a.Seq]
		if q < 0 {
			continue
		}
		from, skip := b.QStart[a.Seq]+a.Skip, int32(0)
		own := s.rows[s.Rank][l.QStart[q]:l.QStart[q+1]]
		for int(skip) < len(own) && own[skip] < from {
			skip++
		}
		if int(skip) < len(own) {
			a.Seq, a.Skip = q, skip
			l.Adapters = append(l.Adapters, a)
		}
	}
}

// gatherRows copies to the i-th row of dst, of so many numbers, the one of src that rows says, and scatterRows back.
func gatherRows(dst, src []float32, rows []int32, width int) []float32 {
	dst = dst[:len(rows)*width]
	for i, r := range rows {
		copy(dst[i*width:(i+1)*width], src[int(r)*width:])
	}
	return dst
}

func scatterRows(dst, src []float32, rows []int32, width int) {
	for i, r := range rows {
		copy(dst[int(r)*width:(int(r)+1)*width], src[i*width:])
	}
}
