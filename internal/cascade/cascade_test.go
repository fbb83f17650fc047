package cascade

import (
	"math"
	"testing"
)

// TestConfidence: the geometric mean of probabilities; with samples, the mean agreement of the others.
func TestConfidence(t *testing.T) {
	c := &Confidence{}
	if c.Value() != 0 {
		t.Errorf("an answer without tokens has %g", c.Value())
	}
	for _, p := range []float64{0.5, 0.125} {
		c.Token(math.Log(p))
	}
	if v := c.Value(); math.Abs(v-0.25) > 1e-9 {
		t.Errorf("%g, wanted 0.25", v)
	}
	c = &Confidence{Samples: 2}
	c.Token(0)
	for i, text := range []string{"The capital is Paris.", "the capital is paris", "Lyon"} {
		c.Text(i, text)
	}
	if v := c.Value(); math.Abs(v-0.5) > 1e-9 {
		t.Errorf("%g, wanted 0.5", v)
	}
}

// TestAgreement compares with ROUGE-L's F1 of pairs done by hand.
func TestAgreement(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want float64
	}{
		{"", "", 1}, {"a", "", 0}, {"A cat.", "a cat", 1},
		{"police killed the gunman", "police kill the gunman", 0.75}, // Lin's example
		{"police killed the gunman", "the gunman kill police", 0.5},
		{"one two three four", "two four", 2. * 2 / 6},
	} {
		if got := Agreement(c.a, c.b); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%q and %q agree by %g, wanted %g", c.a, c.b, got, c.want)
		}
	}
}

// TestPoints: a threshold passes on the answers below it, and the cheapest that keeps the quality is chosen.
func TestPoints(t *testing.T) {
	answer := func(q, s float64) Answer { return Answer{Quality: q, Seconds: s} }
	all := []Tried{
		{0.9, answer(1, 1), answer(1, 10)},
		{0.2, answer(0, 1), answer(1, 10)},
		{0.6, answer(1, 1), answer(0.8, 10)},
		{0.6, answer(0.8, 1), answer(1, 10)},
	}
	points := Points(all)
	want := []Point{{0, 0, 1, 0.7}, {0.4, 0.25, 3.5, 0.95}, {0.75, 0.75, 8.5, 0.95}, {1, 1, 11, 0.95}}
	if len(points) != len(want) {
		t.Fatalf("%+v", points)
	}
	for i, p := range points {
		w := want[i]
		if math.Abs(p.Threshold-w.Threshold)+math.Abs(p.Passed-w.Passed)+math.Abs(p.Seconds-w.Seconds)+math.Abs(p.Quality-w.Quality) > 1e-9 {
			t.Errorf("%+v, wanted %+v", p, w)
		}
	}
	alone := Alone(all)
	if p, err := Choose(points, alone, 1); err != nil || math.Abs(p.Threshold-0.4) > 1e-9 || alone.Seconds != 10 {
		t.Errorf("%+v %v, alone %+v", p, err, alone)
	}
	if p, err := Choose(points, alone, 0.5); err != nil || p.Threshold != 0 {
		t.Errorf("%+v %v", p, err)
	}
	for _, keep := range []float64{0, 1.1, math.NaN()} {
		if _, err := Choose(points, alone, keep); err == nil {
			t.Errorf("keeping %g was taken", keep)
		}
	}
	for _, threshold := range []float64{-0.1, 1.1, math.NaN()} {
		if CheckThreshold(threshold) == nil {
			t.Errorf("a threshold of %g was taken", threshold)
		}
	}
}
