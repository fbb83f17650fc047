package gemm

import (
	"math/rand/v2"
	"runtime"
	"slices"
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

// TestPrefetchBeside: a product uses as many addresses as Beside says, and computes what it does without.
func TestPrefetchBeside(t *testing.T) {
	for _, tier := range Tiers() {
		for _, f := range []quant.Format{quant.Q4_0, quant.Q6_K} {
			for _, m := range []int{1, 7, 16, 35, 36} {
				const cols = 2304
				rng := rand.New(rand.NewPCG(uint64(m), 1))
				w := pack(t, tier, randomTensor(rng, f, 96, cols))
				of := TiledActs(tier, make([]byte, ActBytes(Q8, m, cols)), m, cols)
				acts := &of
				acts.Fill(tier, randomActs(rng, m, cols), 0, m)
				s, plain := NewScratch(), make([]float32, m*96)
				n := Beside(tier, w, 32, 96, m)
				out := make([]float32, m*96)
				s.PrefetchBeside(make([]uintptr, n))
				Mul(tier, out, 96, w, 32, 96, acts, 0, m, s)
				if len(s.beside) > 0 {
					t.Errorf("%v %v: %d rows leave %d of %d addresses", tier, f, m, len(s.beside), n)
				}
				if runtime.GOARCH == "amd64" && tier.kernels().batch[layoutU8] != nil && (n > 0) != (m >= minBatchRows && m <= streamRows) {
					t.Errorf("%v %v: %d addresses beside %d rows", tier, f, n, m)
				}
				Mul(tier, plain, 96, w, 32, 96, acts, 0, m, NewScratch())
				if !slices.Equal(out, plain) {
					t.Errorf("%v %v: %d rows give other numbers with addresses", tier, f, m)
				}
			}
		}
	}
}
