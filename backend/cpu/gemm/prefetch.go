package gemm

// prefetcher is the software prefetch stream of one goroutine: where it reads packed weights ahead of its matmuls into the L2 cache.
// It runs a fixed distance ahead of the weights in use, to the end of what the goroutine multiplies with, and then on into
// the weights of the next matmul, so that memory bandwidth is used between two matmuls as well.
type prefetcher struct {
	from, to  uintptr // packed weights of the matmul under way
	at        uintptr // what is prefetched next: in [from, to], or, once that is done, in following
	following addrRange
	ahead     bool // at is in following
	separate  bool // what is prefetched is not what the matmuls read, see PrefetchBytes
}

// addrRange is a range of addresses.
type addrRange struct{ from, to uintptr }

// maxPrefetch is how many bytes of the next matmul's weights are prefetched before it starts: less than an L2 cache holds beside
// the activations.
const maxPrefetch = 256 << 10

// addrs is where rows [from, to) of packed weights lie; empty if there are none, or if the weights are not packed.
func (w *Weights) addrs(from, to int) addrRange {
	if w.pack == nil || from >= to {
		return addrRange{}
	}
	start, panel := address(&w.data[0]), uintptr(w.panelBytes())
	return addrRange{start + uintptr(from/NR)*panel, start + uintptr(panels(to))*panel}
}

// distance is how many bytes ahead of the weights in use the prefetcher runs: a panel's scales come before its codes, but are
// used together with them, so all of a panel's scales and two K-blocks of codes.
func (w *Weights) distance() uintptr {
	return uintptr(w.Cols/w.Format.Block()*w.pack.size + 2*kc/32*w.pack.layout.blockBytes())
}

// PrefetchWeights says what the calls of Mul that follow read, in order: rows [from, to) of w; and what the matmul after them
// reads: rows [nextFrom, nextTo) of next, which may be nil.
func (s *Scratch) PrefetchWeights(w *Weights, from, to int, next *Weights, nextFrom, nextTo int) {
	r := &s.prefetch
	now, ahead := w.addrs(from, to), uintptr(0)
	if r.ahead && r.following.from == now.from {
		ahead = r.at - r.following.from
	}
	*r = prefetcher{from: now.from, to: now.to}
	if next != nil {
		r.following = next.addrs(nextFrom, nextTo)
	}
	if w.pack != nil {
		r.start(max(ahead, w.distance()))
	}
}

// PrefetchBytes has the calls of Mul that follow prefetch data, in order and as many bytes as they use, instead of their own
// weights, which are in the cache already because they were packed there from the bytes before data. An empty data ends this.
func (s *Scratch) PrefetchBytes(data []byte) {
	s.prefetch = prefetcher{separate: len(data) > 0}
	if len(data) > 0 {
		s.prefetch.from, s.prefetch.at = address(&data[0]), address(&data[0])
		s.prefetch.to = s.prefetch.from + uintptr(len(data))
	}
}

// start begins so many bytes into the weights.
func (r *prefetcher) start(ahead uintptr) {
	r.at = r.from + ahead
	if r.at > r.to {
		r.at, r.ahead = r.following.from+(r.at-r.to), true
	}
}

// next is where a kernel prefetches its next n bytes from; cached, an address that is in the cache already, when there is nothing left.
func (r *prefetcher) next(n int, cached uintptr) uintptr {
	if !r.ahead && r.at >= r.to {
		r.at, r.ahead = r.following.from, true
	}
	if r.ahead && r.at >= min(r.following.to, r.following.from+maxPrefetch) {
		return cached
	}
	at := r.at
	r.at += uintptr(n)
	return at
}

// waitPrefetchBytes is what PrefetchNext reads.
const waitPrefetchBytes = 512

// PrefetchNext prefetches a few bytes while the goroutine waits, and reports whether there was anything to prefetch.
func (s *Scratch) PrefetchNext(tier Tier) bool {
	fetch := tier.kernels().prefetchRows
	if fetch == nil {
		return false
	}
	at := s.prefetch.next(waitPrefetchBytes, 0)
	if at == 0 {
		return false
	}
	fetch(at, waitPrefetchBytes, 1, waitPrefetchBytes)
	return true
}

// BesideBytes is what is prefetched from an address of PrefetchBeside's on: whole cache lines.
const BesideBytes = 512

// Beside is how many addresses of PrefetchBeside's a call of Mul uses with rows [from, to) of w and m rows of activations in Q8; 0: it takes none, since it waits
// for memory itself or has no kernel that prefetches so.
func Beside(tier Tier, w *Weights, from, to, m int) int {
	kernels := tier.kernels()
	if w.pack == nil || m < minBatchRows || m > streamRows || kernels.batch[w.pack.layout] == nil {
		return 0
	}
	return (panels(to) - from/NR) * w.Cols / 32
}

// PrefetchBeside has the next call of Mul prefetch, beside its weights, what the goroutine reads after it: BesideBytes from each address on that is not 0, in order
// and evenly over the call. There are as many as Beside says.
func (s *Scratch) PrefetchBeside(addresses []uintptr) { s.beside = addresses }
