package vec

import "github.com/ridge-llm/ridge/backend/cpu/gemm"

// Ops is the arithmetic of one tier. Its methods check lengths; y may be one of the inputs.
type Ops struct{ k *kernels }

// For is the arithmetic of a tier that the machine has.
func For(tier gemm.Tier) Ops { return Ops{kernelsOf(tier)} }

// kernels are one tier's functions; n is more than 0, and counts numbers or, where lanes are named, whole vectors.
type kernels struct {
	lanes int // numbers in a vector

	dot        func(x, y *float32, n int) float32
	sum        func(x *float32, n int) float32
	add        func(y, x, z *float32, n int)
	addSquares func(y, x, z *float32, n int) float32
	scale      func(y, x, weight *float32, f float32, n int)
	center     func(y, x *float32, mean float32, n int) float32
	affine     func(y, weight, bias *float32, f float32, n int)
	axpby      func(y, x *float32, f, g float32, n int)
	addProduct func(y, x, z *float32, n int)
	multiply   func(y, x *float32, f float32, n int)

	act     [fnCount]func(y, x *float32, n int)
	actMul  [fnCount]func(y, x, up *float32, n int)
	softcap func(y, x *float32, by, limit float32, n int)
	exp     func(y, x *float32, by float32, n int)

	rotateHalf     func(y, x, angles *float32, half, n int) // n vectors of pairs
	rotateAdjacent func(y, x, angles *float32, n int)       // n vectors

	narrowF16, narrowBF16 func(dst *uint16, src *float32, n int) // n vectors
	widenF16, widenBF16   func(dst *float32, src *uint16, n int) // n vectors

	deltaWidth int        // columns of a state that deltaWide takes
	deltaWide  deltaSteps // of deltaWidth columns; nil: there is only delta
	deltaMost  int        // columns that delta takes at most
	delta      deltaSteps
	stateSteps func(h, x, y *float32, rows int, in, read *float32, n int, decay, step, skip float32)
	scanSteps  func(h, rates, steps, by, y *float32, rows int, in, read *float32, n int)
	dotBF16    func(x *float32, y *uint16, n int) float32           // n vectors
	addPanels  func(y *float32, b *uint16, h *float32, rank, n int) // n panels

	expand *expansions // nil: rows are decoded as quant does
}

// Dot is Σ x[i]·y[i] over the length of x.
func (o Ops) Dot(x, y []float32) float32 {
	if len(x) == 0 {
		return 0
	}
	_ = y[len(x)-1]
	return o.k.dot(&x[0], &y[0], len(x))
}

// Add is y = x + z.
func (o Ops) Add(y, x, z []float32) {
	if n := len(y); n > 0 {
		_, _ = x[n-1], z[n-1]
		o.k.add(&y[0], &x[0], &z[0], n)
	}
}

// AddSquares is y = x + z; it returns Σ y[i]².
func (o Ops) AddSquares(y, x, z []float32) float32 {
	n := len(y)
	if n == 0 {
		return 0
	}
	_, _ = x[n-1], z[n-1]
	return o.k.addSquares(&y[0], &x[0], &z[0], n)
}

// Scale is y[i] = x[i]·f·weight[i]: RMSNorm with f = 1 / root mean square.
func (o Ops) Scale(y, x, weight []float32, f float32) {
	if n := len(y); n > 0 {
		_, _ = x[n-1], weight[n-1]
		o.k.scale(&y[0], &x[0], &weight[0], f, n)
	}
}

// Center is y = x - mean of x; it returns Σ y[i]².
func (o Ops) Center(y, x []float32) float32 {
	n := len(y)
	if n == 0 {
		return 0
	}
	_ = x[n-1]
	return o.k.center(&y[0], &x[0], o.k.sum(&x[0], n)/float32(n), n)
}

// Affine is y[i] = y[i]·f·weight[i] + bias[i].
func (o Ops) Affine(y, weight, bias []float32, f float32) {
	if n := len(y); n > 0 {
		_, _ = weight[n-1], bias[n-1]
		o.k.affine(&y[0], &weight[0], &bias[0], f, n)
	}
}

// Axpby is y = f·y + g·x, after the BLAS function.
func (o Ops) Axpby(y, x []float32, f, g float32) {
	if n := len(y); n > 0 {
		_ = x[n-1]
		o.k.axpby(&y[0], &x[0], f, g, n)
	}
}

// Multiply is y = f·x.
func (o Ops) Multiply(y, x []float32, f float32) {
	if n := len(y); n > 0 {
		_ = x[n-1]
		o.k.multiply(&y[0], &x[0], f, n)
	}
}
