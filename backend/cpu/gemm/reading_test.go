package gemm

import (
	"testing"

	"github.com/ridge-llm/ridge/quant"
)

// TestReading: what is read ahead is the rest of the rows that were announced, each byte once, and then the start of the
// next product's, where the next announcement goes on.
func TestReading(t *testing.T) {
	const idle = 1
	matrix := func() *Weights {
		w, err := Packed(quant.Q4_0, 512, 2048, make([]byte, PackedBytes(quant.Q4_0, 512, 2048)))
		if err != nil {
			t.Fatal(err)
		}
		return &w
	}
	s, a, b := &Scratch{}, matrix(), matrix()
	s.Expect(a, 64, 256, b, 256, 512)
	now, next := a.span(64, 256), b.span(256, 512)
	at := now.from + a.distance()
	const n = 4096
	for ; at < now.to; at += n {
		if got := s.reading.take(n, idle); got != at {
			t.Fatalf("reads from %d, not %d, of %d bytes", got-now.from, at-now.from, now.to-now.from)
		}
	}
	read := 0
	for got := s.reading.take(n, idle); got != idle; got = s.reading.take(n, idle) {
		if want := next.from + uintptr(read); got != want {
			t.Fatalf("reads the next matrix from %d, not %d", got-next.from, read)
		}
		read += n
	}
	if want := min(mostAhead, int(next.to-next.from)); read < want || read >= want+n {
		t.Errorf("reads %d bytes of the next matrix; %d is the most", read, want)
	}
	s.Expect(b, 256, 512, nil, 0, 0)
	if got := s.reading.take(n, idle); got != idle && got != next.from+uintptr(read) {
		t.Errorf("goes on from %d, not %d", got-next.from, read)
	}
	var none Scratch
	if got := none.reading.take(n, idle); got != idle {
		t.Errorf("reads from %#x without being told of any matrix", got)
	}
}
