package graph

// Step is the size of one step: which sequences move forward, from where, by how much. It is all that cost depends
// on; the tokens themselves do not matter.
type Step struct {
	Seqs   []Seq
	Logits int // rows whose logits are wanted

	Adapters []StepAdapter // by slot, and of one slot by sequence

	Devices int // among which its rows, and what they attend to, are divided equally: the step counts one's share; 0: all of it
}

// share is one device's part of a number.
func (s *Step) share(n int64) int64 { return ceilDiv(n, int64(max(s.Devices, 1))) }

// StepAdapter is an adapter of one sequence of a step, of whose rows it leaves the first Skip alone: the slot that it is in, its rank and
// the bytes of one of its numbers.
type StepAdapter struct{ Seq, Skip, Slot, Rank, Bytes int }

// Seq is one sequence's part of a step.
type Seq struct {
	New  int // tokens computed in this step
	Past int // tokens whose keys and values are in the cache already
}

// Tokens is the number of token rows.
func (s *Step) Tokens() int {
	t := 0
	for _, q := range s.Seqs {
		t += q.New
	}
	return int(s.share(int64(t)))
}

// Rows is how many rows a value of this kind has in the step. Of those that arrive at a device's experts as many are counted as it has itself: each is needed on one device at least.
func (s *Step) Rows(r Rows) int {
	if r == Logits {
		return s.Logits
	}
	return s.Tokens()
}

// CtxRows is Σ over sequences of the cache rows that causal attention with this window must read; window 0 is no
// window. Rows of one sequence are counted once however many queries look at them.
func (s *Step) CtxRows(window int) int64 {
	var sum int64
	for _, q := range s.Seqs {
		rows := q.Past + q.New
		if window > 0 && q.New > 0 {
			rows = min(rows, q.New+window-1)
		}
		sum += int64(rows)
	}
	return s.share(sum)
}

// Pairs is Σ over sequences of the query × key pairs that causal attention with this window has to score.
func (s *Step) Pairs(window int) int64 {
	var sum int64
	for _, q := range s.Seqs {
		n, past := int64(q.New), int64(q.Past)
		if window <= 0 {
			sum += n*past + n*(n+1)/2
			continue
		}
		// Query i (0-based) sees min(past+i+1, window) keys: growing ones first, then full windows.
		growing := min(max(int64(window)-past, 0), n)
		sum += growing*past + growing*(growing+1)/2 + (n-growing)*int64(window)
	}
	return s.share(sum)
}

// AllPairs is Pairs of bidirectional attention: every new query scores every key of its sequence.
func (s *Step) AllPairs() int64 {
	var sum int64
	for _, q := range s.Seqs {
		sum += int64(q.New) * int64(q.Past+q.New)
	}
	return s.share(sum)
}

// ChunkRows is CtxRows of attention within chunks of so many positions: a sequence's rows from the chunk of its first new token on.
func (s *Step) ChunkRows(chunk int) int64 {
	var sum int64
	for _, q := range s.Seqs {
		if q.New > 0 {
			sum += int64(q.New + q.Past%chunk)
		}
	}
	return s.share(sum)
}

// ChunkPairs is Pairs of attention within chunks of so many positions.
func (s *Step) ChunkPairs(chunk int) int64 {
	c := int64(chunk)
	before := func(n int64) int64 { return n/c*(c*(c+1)/2) + n%c*(n%c+1)/2 } // of a text's first n queries
	var sum int64
	for _, q := range s.Seqs {
		sum += before(int64(q.Past+q.New)) - before(int64(q.Past))
	}
	return s.share(sum)
}

// NearPairs is AllPairs of attention no further than reach either way.
func (s *Step) NearPairs(reach int) int64 {
	var sum int64
	for _, q := range s.Seqs {
		for p := q.Past; p < q.Past+q.New; p++ {
			sum += int64(min(q.Past+q.New-1, p+reach) - max(0, p-reach) + 1)
		}
	}
	return s.share(sum)
}
