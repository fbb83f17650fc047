package calibrate

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestDisturbedBy: others count where they want the processors that are measured.
func TestDisturbedBy(t *testing.T) {
	began := usage{at: time.Unix(100, 0), all: time.Hour, stolen: time.Minute, own: time.Second}
	after := func(all, stolen, own time.Duration) usage {
		return usage{at: began.at.Add(4 * time.Second), all: began.all + all, stolen: began.stolen + stolen, own: began.own + own}
	}
	const s = time.Second
	for name, c := range map[string]struct {
		to                  usage
		threads, processors int
		want                string
	}{
		"alone":                    {after(8*s, 0, 8*s), 2, 2, ""},
		"little beside":            {after(8*s, s/10, 8*s-s/10), 2, 2, ""},
		"one beside":               {after(8*s, 0, 5*s), 2, 2, "other programs took 38 % of the processors"},
		"one beside, and room":     {after(12*s, 0, 8*s), 2, 3, ""},
		"two beside, and too few":  {after(12*s, 0, 6*s), 2, 3, "other programs took 25 % of the processors"},
		"other machines":           {after(7*s, s, 7*s), 2, 2, "the host gave 12 % of the processors to other machines"},
		"no time":                  {began, 2, 2, ""},
		"a device without threads": {after(5*s, 0, 4*s), 0, 64, ""},
	} {
		if got := disturbedBy(began, c.to, c.threads, c.processors); got != c.want {
			t.Errorf("%s: %q, and %q is right", name, got, c.want)
		}
	}
}

func TestAlone(t *testing.T) {
	ran := false
	if _, err := alone(1, func() error { ran = true; return nil }); err != nil || !ran {
		t.Errorf("ran %v, %v", ran, err)
	}
	if _, err := alone(1, func() error { return errors.New("too busy") }); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("an error became %v", err)
	}
}
