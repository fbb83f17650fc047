package quant

import (
	"math"
	"testing"
)

// TestE4M3 goes through all bytes, and through numbers between two neighbours: the nearer is taken, of two as near the even.
func TestE4M3(t *testing.T) {
	for b := range 255 {
		x := E4M3ToF32(byte(b))
		if b&0x7f == 0x7f {
			if x == x || F32ToE4M3(x)&0x7f != 0x7f {
				t.Errorf("%#x is %g, and should stay no number", b, x)
			}
			continue
		}
		if got := F32ToE4M3(x); got != byte(b) {
			t.Errorf("%#x is %g and comes back as %#x", b, x, got)
		}
		if b&0x7f == 0x7e {
			continue
		}
		next := E4M3ToF32(byte(b + 1))
		middle, even := (x+next)/2, byte(b+b&1)
		for y, want := range map[float32]byte{
			middle: even, x + (next-x)*0.49: byte(b), x + (next-x)*0.51: byte(b + 1), math.Nextafter32(middle, x): byte(b),
		} {
			if got := F32ToE4M3(y); got != want {
				t.Errorf("%g between %g and %g becomes %#x, want %#x", y, x, next, got, want)
			}
		}
	}
	for x, want := range map[float32]byte{448: 0x7e, 1e9: 0x7e, float32(math.Inf(-1)): 0xfe, 463: 0x7e, 1: 0x38, -2: 0xc0, 1e-9: 0} {
		if got := F32ToE4M3(x); got != want {
			t.Errorf("%g becomes %#x, want %#x", x, got, want)
		}
	}
}
