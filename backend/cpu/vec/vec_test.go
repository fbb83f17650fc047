package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/quant"
)

// guard is what lies behind every result; no function may touch it.
const guard = 12345

// each runs a test under every tier, at lengths around all vector sizes, on arrays that start anywhere.
func each(t *testing.T, test func(t *testing.T, o Ops, n int, array func() []float32)) {
	for _, tier := range gemm.Tiers() {
		t.Run(tier.String(), func(t *testing.T) {
			for n := 1; n <= 257 && !t.Failed(); n++ {
				rnd := rand.New(rand.NewPCG(uint64(n), 7))
				test(t, For(tier), n, func() []float32 {
					x := make([]float32, n+20)
					for i := range x {
						x[i] = guard
					}
					at := rnd.IntN(16)
					for i := range n {
						x[at+i] = float32(rnd.NormFloat64() * 3)
					}
					return x[at : at+n]
				})
			}
		})
	}
}

// check compares with float64 results and looks behind the end.
func check(t *testing.T, what string, got []float32, want func(i int) float64, tolerance float64) {
	t.Helper()
	for i, v := range got {
		if w := want(i); !(math.Abs(float64(v)-w) <= tolerance*math.Max(1, math.Abs(w))) {
			t.Fatalf("%s of %d: number %d is %g, %g is right", what, len(got), i, v, w)
		}
	}
	if behind := got[:len(got)+1][len(got)]; behind != guard {
		t.Fatalf("%s of %d wrote %g behind the end", what, len(got), behind)
	}
}

func TestRows(t *testing.T) {
	each(t, func(t *testing.T, o Ops, n int, array func() []float32) {
		x, z, w, y := array(), array(), array(), array()
		var dot, sum, squares, magnitude float64
		for i := range x {
			dot += float64(x[i]) * float64(z[i])
			sum += float64(x[i])
			magnitude += math.Abs(float64(x[i]) * float64(z[i]))
			squares += math.Pow(float64(x[i])+float64(z[i]), 2)
		}
		if got := float64(o.Dot(x, z)); math.Abs(got-dot) > 1e-6*magnitude {
			t.Fatalf("Dot of %d: %g, %g is right", n, got, dot)
		}
		o.Add(y, x, z)
		check(t, "Add", y, func(i int) float64 { return float64(x[i]) + float64(z[i]) }, 1e-6)
		if got := float64(o.AddSquares(y, x, z)); math.Abs(got-squares) > 1e-6*squares {
			t.Fatalf("AddSquares of %d: %g, %g is right", n, got, squares)
		}
		check(t, "AddSquares", y, func(i int) float64 { return float64(x[i]) + float64(z[i]) }, 1e-6)
		o.Scale(y, x, w, 0.7)
		check(t, "Scale", y, func(i int) float64 { return float64(x[i]) * 0.7 * float64(w[i]) }, 1e-6)
		mean := sum / float64(n)
		spread := 0.0
		for i := range x {
			spread += math.Pow(float64(x[i])-mean, 2)
		}
		if got := float64(o.Center(y, x)); math.Abs(got-spread) > 1e-5*math.Max(spread, 1e-3) {
			t.Fatalf("Center of %d: %g, %g is right", n, got, spread)
		}
		check(t, "Center", y, func(i int) float64 { return float64(x[i]) - mean }, 1e-5)
		copy(y, x)
		o.Affine(y, w, z, 0.3)
		check(t, "Affine", y, func(i int) float64 { return float64(x[i])*0.3*float64(w[i]) + float64(z[i]) }, 1e-6)
		copy(y, x)
		o.Axpby(y, z, 0.25, 0.7)
		check(t, "Axpby", y, func(i int) float64 { return float64(x[i])*0.25 + float64(z[i])*0.7 }, 1e-6)
		copy(y, x)
		o.AddProduct(y, z, w)
		check(t, "AddProduct", y, func(i int) float64 { return float64(x[i]) + float64(z[i])*float64(w[i]) }, 2e-6)
		o.Multiply(y, x, 0.3)
		check(t, "Multiply", y, func(i int) float64 { return float64(x[i]) * 0.3 }, 1e-6)
	})
}

func TestRotate(t *testing.T) {
	each(t, func(t *testing.T, o Ops, n int, array func() []float32) {
		n &^= 1
		if n == 0 {
			return
		}
		x, y, angles := array()[:n], array(), array()[:n]
		y = y[:n]
		o.RotateHalf(y, x, angles)
		for i := range n / 2 {
			cos, sin, p, q := float64(angles[2*i]), float64(angles[2*i+1]), float64(x[i]), float64(x[i+n/2])
			if a, b := p*cos-q*sin, q*cos+p*sin; math.Abs(a-float64(y[i])) > 1e-5 || math.Abs(b-float64(y[i+n/2])) > 1e-5 {
				t.Fatalf("RotateHalf of %d: pair %d is (%g, %g), (%g, %g) is right", n, i, y[i], y[i+n/2], a, b)
			}
		}
		o.RotateAdjacent(y, x, angles)
		for i := 0; i < n; i += 2 {
			cos, sin, p, q := float64(angles[i]), float64(angles[i+1]), float64(x[i]), float64(x[i+1])
			if a, b := p*cos-q*sin, q*cos+p*sin; math.Abs(a-float64(y[i])) > 1e-5 || math.Abs(b-float64(y[i+1])) > 1e-5 {
				t.Fatalf("RotateAdjacent of %d: pair %d is (%g, %g), (%g, %g) is right", n, i, y[i], y[i+1], a, b)
			}
		}
	})
}

func TestConvert(t *testing.T) {
	each(t, func(t *testing.T, o Ops, n int, array func() []float32) {
		x, y := array(), array()
		x[0] = []float32{float32(math.NaN()), float32(math.Inf(1)), 65519, 65520, 1e-7, 6e-8, 1e-40, 3.4e38, -0x1.01p0, -0x1.03p0}[n%10]
		h := make([]uint16, n+1)
		h[n] = guard
		for _, f := range []struct {
			name   string
			narrow func([]uint16, []float32)
			widen  func([]float32, []uint16)
			to     func(float32) uint16
			from   func(uint16) float32
		}{
			{"F16", o.NarrowF16, o.WidenF16, quant.F32ToF16, quant.F16ToF32},
			{"BF16", o.NarrowBF16, o.WidenBF16, quant.F32ToBF16, quant.BF16ToF32},
		} {
			f.narrow(h, x)
			f.widen(y, h[:n])
			for i := range x {
				if h[i] != f.to(x[i]) {
					t.Fatalf("%s of %d: number %d, %g, becomes %#x, %#x is right", f.name, n, i, x[i], h[i], f.to(x[i]))
				}
				if got, want := math.Float32bits(y[i]), math.Float32bits(f.from(h[i])); got != want {
					t.Fatalf("%s of %d: number %d, %#x, becomes %#x, %#x is right", f.name, n, i, h[i], got, want)
				}
			}
			if h[n] != guard {
				t.Fatalf("%s of %d wrote behind the end", f.name, n)
			}
		}
	})
}
