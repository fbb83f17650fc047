package quant

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestF16IsExactBothWays checks all 65536 binary16 numbers: widening against the definition, narrowing back to the same.
func TestF16IsExactBothWays(t *testing.T) {
	for h := range 1 << 16 {
		got := F16ToF32(uint16(h))
		exp, mant := h>>10&31, h&1023
		want := math.Ldexp(float64(1024+mant), exp-25)
		switch {
		case exp == 0:
			want = math.Ldexp(float64(mant), -24)
		case exp == 31 && mant == 0:
			want = math.Inf(1)
		case exp == 31:
			want = math.NaN()
		}
		if h >= 0x8000 {
			want = -want
		}
		if math.IsNaN(want) {
			if got == got || F32ToF16(got)&0x7e00 != 0x7e00 {
				t.Fatalf("%#04x is a NaN and became %v, and then %#04x", h, got, F32ToF16(got))
			}
			continue
		}
		if float64(got) != want || math.Signbit(float64(got)) != (h >= 0x8000) {
			t.Fatalf("%#04x widens to %v, not %v", h, got, want)
		}
		if back := F32ToF16(got); back != uint16(h) {
			t.Fatalf("%#04x widens to %v and narrows to %#04x", h, got, back)
		}
	}
}

// TestNarrowingRoundsToNearestEven compares both narrowings with a search for the nearest, on random float32 bits and on
// the ties between every two neighbours.
func TestNarrowingRoundsToNearestEven(t *testing.T) {
	formats := []struct {
		name   string
		narrow func(float32) uint16
		widen  func(uint16) float32
		inf    uint16
	}{
		{"F16", F32ToF16, F16ToF32, 0x7c00},
		{"BF16", F32ToBF16, BF16ToF32, 0x7f80},
	}
	for _, f := range formats {
		check := func(x float32) {
			t.Helper()
			h := f.narrow(x)
			mag := h & 0x7fff
			if math.Signbit(float64(x)) != (h >= 0x8000) {
				t.Fatalf("%s: the sign of %v is lost in %#04x", f.name, x, h)
			}
			// Infinity stands where the next number would, were there one.
			value := func(m uint16) float64 {
				if m == f.inf {
					return 2*float64(f.widen(m-1)) - float64(f.widen(m-2))
				}
				return float64(f.widen(m))
			}
			ax := math.Abs(float64(x))
			off := math.Abs(ax - value(mag))
			if mag == f.inf && ax > value(mag) {
				return
			}
			for _, other := range []uint16{mag - 1, mag + 1} {
				if other > f.inf {
					continue
				}
				d := math.Abs(ax - value(other))
				if d < off || (d == off && mag&1 == 1) {
					t.Fatalf("%s: %v (%#08x) became %#04x, but %#04x is the nearest even", f.name, x, math.Float32bits(x), h, other)
				}
			}
		}
		for m := uint16(0); m < f.inf-1; m++ {
			tie := float32((float64(f.widen(m)) + float64(f.widen(m+1))) / 2)
			for _, x := range []float32{tie, math.Nextafter32(tie, 0), math.Nextafter32(tie, math.MaxFloat32)} {
				check(x)
				check(-x)
			}
		}
		r := rand.New(rand.NewPCG(1, 1))
		for range 200_000 {
			if x := math.Float32frombits(r.Uint32()); x == x && !math.IsInf(float64(x), 0) {
				check(x)
			}
		}
		if h := f.narrow(float32(math.NaN())); f.widen(h) == f.widen(h) {
			t.Errorf("%s: NaN became %#04x, a number", f.name, h)
		}
		if h := f.narrow(float32(math.Inf(-1))); h != f.inf|0x8000 {
			t.Errorf("%s: minus infinity became %#04x", f.name, h)
		}
		if h := f.narrow(math.MaxFloat32); h != f.inf {
			t.Errorf("%s: the largest float32 became %#04x", f.name, h)
		}
	}
}
