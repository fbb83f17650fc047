package gemm

// Reading is where a goroutine reads memory ahead of its products into the second-level cache. It runs a fixed distance
// ahead of the weights in use, to the end of what the goroutine has to multiply, and then on into what comes next, so
// that memory does not rest between two products either.
type Reading struct {
	from, to uintptr // the packed weights at hand
	at       uintptr // what is read next: in [from, to], or, once that is done, in next
	next     span
	on       bool // at is in next
	loose    bool // what is read is not what the products use, see Follow
}

// span is some memory.
type span struct{ from, to uintptr }

// mostAhead is how much of the next product's weights is read while its turn has not come: less than a second-level
// cache holds beside the activations.
const mostAhead = 256 << 10

// span is where rows [from, to) of packed weights lie; nowhere if there are none, or if they are not packed.
func (w *Weights) span(from, to int) span {
	if w.pack == nil || from >= to {
		return span{}
	}
	start, unit := address(&w.data[0]), uintptr(w.unitBytes())
	return span{start + uintptr(from/Granule)*unit, start + uintptr(units(to))*unit}
}

// distance is how far ahead of the place in use memory is read: a unit's scales come before its codes, but are used
// together with them, so what is in use is spread over all the scales and some of the codes.
func (w *Weights) distance() uintptr {
	return uintptr(w.Cols/w.Format.Block()*w.pack.bytes + 2*panelK/32*w.pack.form.blockBytes())
}

// Expect says what the calls of Mul that follow go through, in order: rows [from, to) of w; and what will be multiplied
// with after that: rows [nextFrom, nextTo) of next, which may be nil.
func (s *Scratch) Expect(w *Weights, from, to int, next *Weights, nextFrom, nextTo int) {
	r := &s.reading
	now, ahead := w.span(from, to), uintptr(0)
	if r.on && r.next.from == now.from {
		ahead = r.at - r.next.from
	}
	*r = Reading{from: now.from, to: now.to}
	if next != nil {
		r.next = next.span(nextFrom, nextTo)
	}
	if w.pack != nil {
		r.start(max(ahead, w.distance()))
	}
}

// Follow says what the calls of Mul that follow read ahead, in order and as many bytes as they use, in place of their
// weights: those were unpacked into the cache from what lies before it. After nothing, they read their weights again.
func (s *Scratch) Follow(data []byte) {
	s.reading = Reading{loose: len(data) > 0}
	if len(data) > 0 {
		s.reading.from, s.reading.at = address(&data[0]), address(&data[0])
		s.reading.to = s.reading.from + uintptr(len(data))
	}
}

// start sets out so many bytes ahead.
func (r *Reading) start(ahead uintptr) {
	r.at = r.from + ahead
	if r.at > r.to {
		r.at, r.on = r.next.from+(r.at-r.to), true
	}
}

// take gives a kernel the next n bytes to read, or others that it may as well read instead.
func (r *Reading) take(n int, idle uintptr) uintptr {
	if !r.on && r.at >= r.to {
		r.at, r.on = r.next.from, true
	}
	if r.on && r.at >= min(r.next.to, r.next.from+mostAhead) {
		return idle
	}
	at := r.at
	r.at += uintptr(n)
	return at
}

// waitingBytes is what ReadAhead reads.
const waitingBytes = 512

// ReadAhead uses a moment of waiting to read on, and reports whether there was something to read.
func (s *Scratch) ReadAhead(tier Tier) bool {
	fetch := tier.kernels().fetchRows
	if fetch == nil {
		return false
	}
	at := s.reading.take(waitingBytes, 0)
	if at == 0 {
		return false
	}
	fetch(at, waitingBytes, 1, waitingBytes)
	return true
}
