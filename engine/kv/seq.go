package kv

// Seq is one sequence's table of pages. The zero Seq is empty and ready; its memory is reused after Free.
type Seq struct {
	pages     []int32
	length    int    // tokens that have a slot
	settled   int    // tokens that had one before the last Append: the step now planned does not write these
	published int    // pages[:published] are in the index
	salt      uint64 // who may share them
}

// Len is the number of tokens that have a slot: computed, or to be computed by the step that is being planned.
func (s *Seq) Len() int { return s.length }

// Table is the sequence's pages, in order of position. It is valid, and must not be changed, until the next operation.
func (s *Seq) Table() []int32 { return s.pages }

// Need is the number of pages that Append would take for n more tokens. It is at most one too many if another
// sequence that shares the last page lets go of it first.
func (p *Pool) Need(s *Seq, n int) int {
	need := p.PagesFor(s.length+n) - len(s.pages)
	if n > 0 && p.tailShared(s) {
		need++
	}
	return need
}

// tailShared reports whether the next token goes to a page that others see: it has to be copied first.
func (p *Pool) tailShared(s *Seq) bool {
	return s.length%p.pageSize != 0 && p.shared(s.pages[len(s.pages)-1])
}

// Append gives the next n tokens their slots. If the first of them goes to a page that another sequence or the index
// also sees, the sequence gets a page of its own instead and the copy to make is appended to copies. If there are too
// few pages it changes nothing and returns false.
func (p *Pool) Append(s *Seq, n int, copies []Copy) ([]Copy, bool) {
	if p.Need(s, n) > p.Available() {
		return copies, false
	}
	if n > 0 && p.tailShared(s) {
		last := len(s.pages) - 1
		old, own := s.pages[last], p.take()
		copies = append(copies, Copy{From: old, To: own})
		s.pages[last] = own
		s.published = min(s.published, last)
		p.release(old)
	}
	s.settled = s.length
	s.length += n
	for range p.PagesFor(s.length) - len(s.pages) {
		s.pages = append(s.pages, p.take())
	}
	return copies, true
}

// Slots appends the cache rows of the sequence's last n tokens to dst.
func (p *Pool) Slots(dst []int32, s *Seq, n int) []int32 {
	for at := s.length - n; at < s.length; {
		i := at / p.pageSize
		first := s.pages[i]*int32(p.pageSize) - int32(i*p.pageSize)
		for end := min((i+1)*p.pageSize, s.length); at < end; at++ {
			dst = append(dst, first+int32(at))
		}
	}
	return dst
}

// Free lets go of all pages, the last first: the index takes the order of release for the order of use, and must evict the end
// of a text before its beginning. Those in the index stay there, idle, until they are evicted.
func (p *Pool) Free(s *Seq) {
	for i := len(s.pages) - 1; i >= 0; i-- {
		p.release(s.pages[i])
	}
	*s = Seq{pages: s.pages[:0]}
}

// Returns is the number of pages that Free would make available: those that no other sequence holds.
func (p *Pool) Returns(s *Seq) int {
	n := 0
	for _, page := range s.pages {
		if p.holders[page] == 1 {
			n++
		}
	}
	return n
}

// Fork makes the empty sequence child a second holder of all of parent's pages, for n > 1 answers to one prompt. The
// two part at the first page that either writes: Append copies it.
func (p *Pool) Fork(child, parent *Seq) {
	*child = Seq{
		pages:     append(child.pages[:0], parent.pages...),
		length:    parent.length,
		settled:   parent.settled,
		published: parent.published,
		salt:      parent.salt,
	}
	for _, page := range child.pages {
		p.holders[page]++
	}
}

// Move gives the sequence pages in another pool in place of its own, and appends the copies to make, from pages of p
// to pages of to: to swap a sequence out to host memory, or back in. If to has too few pages it changes nothing and
// returns false.
func (p *Pool) Move(s *Seq, to *Pool, copies []Copy) ([]Copy, bool) {
	if len(s.pages) > to.Available() {
		return copies, false
	}
	// The last page first, as in Free.
	for i := len(s.pages) - 1; i >= 0; i-- {
		old := s.pages[i]
		s.pages[i] = to.take()
		copies = append(copies, Copy{From: old, To: s.pages[i]})
		p.release(old)
	}
	s.published = 0
	s.settled = s.length
	return copies, true
}
