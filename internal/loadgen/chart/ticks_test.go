package chart

import "testing"

// TestLogTicks: an axis has a few labels, however long it is.
func TestLogTicks(t *testing.T) {
	for _, c := range []struct{ low, high float64 }{{0.002, 4000}, {1, 1000}, {0.9, 110}, {3, 40}, {21, 48}, {6.8, 18.5}, {95, 310}, {9.81, 10.3}, {1234, 1236}} {
		labels, last := 0, 0.0
		for _, tick := range (logTicks{}).Ticks(c.low, c.high) {
			if tick.Label == "" {
				continue
			}
			if labels++; tick.Value < c.low || tick.Value > c.high || tick.Value <= last {
				t.Errorf("from %g to %g: a label at %g", c.low, c.high, tick.Value)
			}
			last = tick.Value
		}
		if labels < 3 || labels > 12 {
			t.Errorf("from %g to %g there are %d labels", c.low, c.high, labels)
		}
	}
}
