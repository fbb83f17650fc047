package quant

import (
	"math"
	"testing"
)

func TestEncodeInt8(t *testing.T) {
	for _, c := range []struct {
		x     []float32
		want  []int8
		scale float32
	}{
		{[]float32{127, -127, 0.5, 1.5, -2.5}, []int8{127, -127, 0, 2, -2}, 1}, // ties to even
		{[]float32{0, 0}, []int8{0, 0}, 0},
		{[]float32{-1e-3}, []int8{-127}, 1e-3 / 127},
	} {
		got := make([]int8, len(c.x))
		scale := EncodeInt8(got, c.x)
		if math.Abs(float64(scale-c.scale)) > 1e-7*float64(c.scale) {
			t.Errorf("%g: the scale is %g, %g is right", c.x, scale, c.scale)
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%g becomes %d, %d is right", c.x, got, c.want)
				break
			}
		}
	}
	if scale := EncodeInt8(make([]int8, 2), []float32{1, float32(math.NaN())}); scale == scale {
		t.Errorf("a NaN is hidden by scale %g", scale)
	}
}
