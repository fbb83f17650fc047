package gemm

import (
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// TestPrefetch: what is prefetched is the rest of the rows that were announced, each byte once, and then the start of the
// next matmul's, where the next announcement continues.
func TestPrefetch(t *testing.T) {
	const cached = 1
	matrix := func() *Weights {
		w, err := Packed(quant.Q4_0, 512, 2048, make([]byte, PackedBytes(quant.Q4_0, 512, 2048)))
		if err != nil {
			t.Fatal(err)
		}
		return &w
	}
	s, a, b := &Scratch{}, matrix(), matrix()
	s.PrefetchWeights(a, 64, 256, b, 256, 512)
	now, next := a.addrs(64, 256), b.addrs(256, 512)
	at := now.from + a.distance()
	const n = 4096
	for ; at < now.to; at += n {
		if got := s.prefetch.next(n, cached); got != at {
			t.Fatalf("prefetches from %d, not %d, of %d bytes", got-now.from, at-now.from, now.to-now.from)
		}
	}
	read := 0
	for got := s.prefetch.next(n, cached); got != cached; got = s.prefetch.next(n, cached) {
		if want := next.from + uintptr(read); got != want {
			t.Fatalf("prefetches the next matrix from %d, not %d", got-next.from, read)
		}
		read += n
	}
	if want := min(maxPrefetch, int(next.to-next.from)); read < want || read >= want+n {
		t.Errorf("prefetches %d bytes of the next matrix; %d is the most", read, want)
	}
	s.PrefetchWeights(b, 256, 512, nil, 0, 0)
	if got := s.prefetch.next(n, cached); got != cached && got != next.from+uintptr(read) {
		t.Errorf("continues at %d, not %d", got-next.from, read)
	}
	var none Scratch
	if got := none.prefetch.next(n, cached); got != cached {
		t.Errorf("prefetches from %#x without being given a matrix", got)
	}
}
