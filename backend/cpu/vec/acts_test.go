package vec

import (
	"math"
	"testing"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
)

var functions = []struct {
	fn   Fn
	name string
	f    func(float64) float64
	ulps float64
}{{Silu, "silu", silu, 2}, {GeluTanh, "geluTanh", geluTanh, 80}, {GeluErf, "geluErf", geluErf, 4}, {Relu, "relu", relu, 0}, {Softplus, "softplus", softplus, 4}, {Relu2, "relu2", relu2, 0.5}, {Sigmoid, "sigmoid", sigmoid, 2}}

func TestActLengths(t *testing.T) {
	each(t, func(t *testing.T, o Ops, n int, array func() []float32) {
		x, up, y := array(), array(), array()
		for _, c := range functions {
			o.Act(c.fn, y, x)
			check(t, c.name, y, func(i int) float64 { return c.f(float64(x[i])) }, 1e-6)
			o.ActMul(c.fn, y, x, up)
			check(t, c.name+" times up", y, func(i int) float64 { return c.f(float64(x[i])) * float64(up[i]) }, 1e-6)
		}
		o.Softcap(y, x, 0.5, 2)
		check(t, "Softcap", y, func(i int) float64 { return 2 * math.Tanh(0.5*float64(x[i])) }, 1e-6)
		o.Exp(y, x, -0.5)
		check(t, "Exp", y, func(i int) float64 { return math.Exp(-0.5 * float64(x[i])) }, 1e-6)
	})
}

// TestActs measures the error in units in the last place all over the range of float32, ends included.
func TestActs(t *testing.T) {
	var x []float32
	for v := float32(1e-30); v < 1e30; v *= 1.03 {
		x = append(x, v, -v)
	}
	for v := -30.0; v < 30; v += 0.0013 {
		x = append(x, float32(v))
	}
	for _, tier := range gemm.Tiers() {
		o, y := For(tier), make([]float32, len(x))
		judge := func(name string, f func(float64) float64, most float64) {
			worst, at := 0.0, float32(0)
			for i, v := range x {
				want := f(float64(v))
				if want > math.MaxFloat32 && math.IsInf(float64(y[i]), 1) {
					continue
				}
				// Results below 1e-36 may be cut to zero.
				ulp := math.Max(math.Abs(want)*0x1p-23, 1e-36)
				if e := math.Abs(float64(y[i])-want) / ulp; !(e <= worst) {
					worst, at = e, v
				}
			}
			t.Logf("%s %s: %.2f ulp at %g", tier, name, worst, at)
			if !(worst <= most) {
				t.Errorf("%s %s: %.1f ulp at %g; %g is the bound", tier, name, worst, at, most)
			}
		}
		for _, c := range functions {
			o.Act(c.fn, y, x)
			judge(c.name, c.f, c.ulps)
		}
		o.Softcap(y, x, 1, 1)
		judge("tanh", math.Tanh, 2)
	}
}

// TestActEnds: infinities and NaN come out as the definitions have them.
func TestActEnds(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, tier := range gemm.Tiers() {
		x := make([]float32, 16)
		y := make([]float32, 16)
		x[0], x[1], x[2], x[3] = inf, nan, 1e38, -1e38
		for _, c := range functions[:5] { // those that are x above and 0 below
			For(tier).Act(c.fn, y, x)
			if y[0] != inf || y[1] == y[1] || y[2] != 1e38 || y[3] != 0 {
				t.Errorf("%s %s of +Inf, NaN, 1e38 and -1e38 is %g", tier, c.name, y[:4])
			}
		}
		for fn, most := range map[Fn]float32{Relu2: inf, Sigmoid: 1} {
			For(tier).Act(fn, y, x)
			if y[0] != most || y[1] == y[1] || y[2] != most || y[3] != 0 {
				t.Errorf("%s %d of +Inf, NaN, 1e38 and -1e38 is %g", tier, fn, y[:4])
			}
		}
	}
}
