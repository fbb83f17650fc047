package vec

import (
	"math"
	"unsafe"

	"github.com/ridge-llm/ridge/quant"
)

// generic is plain Go: what machines without the assembly run, and what the assembly is tested against.
var generic = &kernels{
	lanes: 2,
	dot:   genericDot,
	sum: func(x *float32, n int) float32 {
		var s float64
		for _, v := range slice(x, n) {
			s += float64(v)
		}
		return float32(s)
	},
	add: genericAdd,
	addSquares: func(y, x, z *float32, n int) float32 {
		genericAdd(y, x, z, n)
		return genericDot(y, y, n)
	},
	scale: func(y, x, weight *float32, f float32, n int) {
		ys, ws := slice(y, n), slice(weight, n)
		for i, v := range slice(x, n) {
			ys[i] = v * f * ws[i]
		}
	},
	center: func(y, x *float32, mean float32, n int) float32 {
		ys := slice(y, n)
		for i, v := range slice(x, n) {
			ys[i] = v - mean
		}
		return genericDot(y, y, n)
	},
	affine: func(y, weight, bias *float32, f float32, n int) {
		ys, ws, bs := slice(y, n), slice(weight, n), slice(bias, n)
		for i := range ys {
			ys[i] = ys[i]*f*ws[i] + bs[i]
		}
	},
	axpby: func(y, x *float32, f, g float32, n int) {
		ys := slice(y, n)
		for i, v := range slice(x, n) {
			ys[i] = ys[i]*f + v*g
		}
	},
	addProduct: func(y, x, z *float32, n int) {
		ys, zs := slice(y, n), slice(z, n)
		for i, v := range slice(x, n) {
			ys[i] += v * zs[i]
		}
	},
	multiply: func(y, x *float32, f float32, n int) {
		ys := slice(y, n)
		for i, v := range slice(x, n) {
			ys[i] = v * f
		}
	},
	act: [fnCount]func(y, x *float32, n int){
		Silu: genericAct(silu), GeluTanh: genericAct(geluTanh), GeluErf: genericAct(geluErf), Relu: genericAct(relu),
		Relu2: genericAct(relu2), Sigmoid: genericAct(sigmoid), Softplus: genericAct(softplus), Identity: genericAct(identity),
	},
	actMul: [fnCount]func(y, x, up *float32, n int){
		Silu: genericActMul(silu), GeluTanh: genericActMul(geluTanh), GeluErf: genericActMul(geluErf), Relu: genericActMul(relu),
		Relu2: genericActMul(relu2), Sigmoid: genericActMul(sigmoid), Softplus: genericActMul(softplus), Identity: genericActMul(identity),
	},
	softcap: func(y, x *float32, by, limit float32, n int) {
		ys := slice(y, n)
		for i, v := range slice(x, n) {
			ys[i] = float32(float64(limit) * math.Tanh(float64(v)*float64(by)))
		}
	},
	exp: func(y, x *float32, by float32, n int) {
		ys := slice(y, n)
		for i, v := range slice(x, n) {
			ys[i] = float32(math.Exp(float64(v) * float64(by)))
		}
	},
	rotateHalf: func(y, x, angles *float32, half, n int) {
		ys, xs, as := slice(y, half+2*n), slice(x, half+2*n), slice(angles, 4*n)
		for i := range 2 * n {
			p, q, cos, sin := xs[i], xs[i+half], as[2*i], as[2*i+1]
			ys[i], ys[i+half] = p*cos-q*sin, q*cos+p*sin
		}
	},
	rotateAdjacent: func(y, x, angles *float32, n int) {
		ys, xs, as := slice(y, 2*n), slice(x, 2*n), slice(angles, 2*n)
		for i := 0; i < 2*n; i += 2 {
			p, q, cos, sin := xs[i], xs[i+1], as[i], as[i+1]
			ys[i], ys[i+1] = p*cos-q*sin, q*cos+p*sin
		}
	},
	narrowF16:  genericNarrow(quant.F32ToF16),
	narrowBF16: genericNarrow(quant.F32ToBF16),
	widenF16:   genericWiden(quant.F16ToF32),
	widenBF16:  genericWiden(quant.BF16ToF32),

	deltaMost: math.MaxInt, delta: genericDelta, stateSteps: genericStateSteps, scanSteps: genericScanSteps,
	dotBF16: genericDotBF16, addPanels: genericAddPanels,
}

func slice(p *float32, n int) []float32 { return unsafe.Slice(p, n) }

// genericDot has eight sums that do not wait for one another.
func genericDot(px, py *float32, n int) float32 {
	x, y := slice(px, n), slice(py, n)
	var s [8]float32
	i := 0
	for ; i+8 <= n; i += 8 {
		a, b := x[i:i+8:i+8], y[i:i+8:i+8]
		s[0] += a[0] * b[0]
		s[1] += a[1] * b[1]
		s[2] += a[2] * b[2]
		s[3] += a[3] * b[3]
		s[4] += a[4] * b[4]
		s[5] += a[5] * b[5]
		s[6] += a[6] * b[6]
		s[7] += a[7] * b[7]
	}
	for ; i < n; i++ {
		s[0] += x[i] * y[i]
	}
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

func genericAdd(y, x, z *float32, n int) {
	ys, zs := slice(y, n), slice(z, n)
	for i, v := range slice(x, n) {
		ys[i] = v + zs[i]
	}
}

func genericAct(f func(float64) float64) func(y, x *float32, n int) {
	return func(y, x *float32, n int) {
		ys := slice(y, n)
		for i, v := range slice(x, n) {
			ys[i] = float32(f(float64(v)))
		}
	}
}

func genericActMul(f func(float64) float64) func(y, x, up *float32, n int) {
	return func(y, x, up *float32, n int) {
		ys, us := slice(y, n), slice(up, n)
		for i, v := range slice(x, n) {
			ys[i] = float32(f(float64(v))) * us[i]
		}
	}
}

func silu(x float64) float64 { return x / (1 + math.Exp(-x)) }

func geluTanh(x float64) float64 {
	return x / (1 + math.Exp(-2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

func geluErf(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) }

func relu(x float64) float64 { return max(x, 0) }

func relu2(x float64) float64 { return max(x, 0) * max(x, 0) }

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func identity(x float64) float64 { return x }

func genericNarrow(f func(float32) uint16) func(dst *uint16, src *float32, n int) {
	return func(dst *uint16, src *float32, n int) {
		to := unsafe.Slice(dst, 2*n)
		for i, v := range slice(src, 2*n) {
			to[i] = f(v)
		}
	}
}

func genericWiden(f func(uint16) float32) func(dst *float32, src *uint16, n int) {
	return func(dst *float32, src *uint16, n int) {
		to := slice(dst, 2*n)
		for i, v := range unsafe.Slice(src, 2*n) {
			to[i] = f(v)
		}
	}
}
