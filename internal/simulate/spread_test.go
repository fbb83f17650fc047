package simulate

import (
	"math"
	"slices"
	"testing"
)

// TestSpread: steps of 10 ms, one of ten of which took three times as long, and of 500 ms, which took 1 % more or less, are drawn as they
// were; and a cost that nothing measured is near takes after the nearest.
func TestSpread(t *testing.T) {
	var cost, took []float64
	for i := range 200 {
		cost, took = append(cost, 0.010), append(took, 0.010)
		if i%10 == 0 {
			took[len(took)-1] = 0.030
		}
		if i%5 == 0 {
			cost, took = append(cost, 0.5), append(took, 0.5*(0.99+0.02*float64(i%2)))
		}
	}
	s := NewSpread(cost, took)
	slow, sum := 0, 0.0
	for range 1000 {
		switch seconds := s.Take(0.011); {
		case math.Abs(seconds-0.033) < 1e-9:
			slow++
		case math.Abs(seconds-0.011) > 1e-9:
			t.Fatalf("a step that costs 11 ms takes %.1f", 1000*seconds)
		}
		long := s.Take(0.45)
		if long < 0.445 || long > 0.455 {
			t.Fatalf("a step that costs 450 ms takes %.1f", 1000*long)
		}
		sum += long
	}
	if slow < 60 || slow > 140 {
		t.Errorf("%d of 1000 steps are slow; a tenth of the measured ones was", slow)
	}
	if mean := sum / 1000; math.Abs(mean-0.45) > 0.002 {
		t.Errorf("steps that cost 450 ms take %.1f on average", 1000*mean)
	}
	if x := s.Take(100); x < 98 || x > 102 {
		t.Errorf("a step far beyond the measured ones takes %g of 100 s", x)
	}
	if x := s.Take(1e-6); x != 1e-6 && math.Abs(x-3e-6) > 1e-12 {
		t.Errorf("a step far below the measured ones takes %g of 1e-6 s", x)
	}
	if x := NewSpread(nil, nil).Take(7); x != 7 {
		t.Errorf("without measured steps one of 7 s takes %g", x)
	}
	if x := NewSpread([]float64{0, 1}, []float64{1, math.NaN()}).Take(7); x != 7 {
		t.Errorf("from steps without cost or time one of 7 s takes %g", x)
	}
	one := NewSpread(cost, took)
	two := NewSpread(cost, took)
	var a, b []float64
	for range 50 {
		a, b = append(a, one.Take(0.011)), append(b, two.Take(0.011))
	}
	if !slices.Equal(a, b) {
		t.Error("two simulations draw otherwise")
	}
}
