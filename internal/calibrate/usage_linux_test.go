package calibrate

import (
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	u, err := parseStat([]byte("cpu  100 20 30 4000 500 6 7 80 9 10\ncpu0 1 2 3\n"))
	if want := 1630 * time.Millisecond; err != nil || u.all != want || u.stolen != 800*time.Millisecond {
		t.Errorf("%+v, %v; %v in all and 0.8 s stolen are right", u, err, want)
	}
	for _, bad := range []string{"", "cpu  1 2 3\n", "intr 5\n", "cpu  a b c d e f g h\n"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	if u, known := processors(); !known || u.at.IsZero() || u.own < 0 {
		t.Errorf("this machine: %+v, %v", u, known)
	}
}
