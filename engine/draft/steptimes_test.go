package draft

import "testing"

// TestStepTimes: steps take what those of as many sequences took, or of the nearest number above, or else below; one long step says little.
func TestStepTimes(t *testing.T) {
	var s StepTimes
	expect := func(seqs, tokens int, want float64) {
		t.Helper()
		if got := s.Seconds(seqs, tokens); got < want*0.999 || got > want*1.001 {
			t.Errorf("%d tokens of each of %d sequences take %g, want %g", tokens, seqs, got, want)
		}
	}
	expect(4, 3, 0)
	s.Observe(5, 0.25)
	s.Observe(64, 1)
	for _, c := range []struct {
		seqs int
		want float64
	}{{4, 0.25}, {1, 0.25}, {8, 1}, {100, 1}, {1 << 62, 1}} {
		expect(c.seqs, 3, 3*c.want)
	}
	s.Observe(7, 100)
	expect(4, 1, 0.275)
}
