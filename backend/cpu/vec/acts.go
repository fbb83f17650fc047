package vec

// Fn is an activation function.
type Fn uint8

// The functions, as package graph defines them.
const (
	Silu Fn = iota
	GeluTanh
	GeluErf
	Relu
	Relu2
	Sigmoid
	Softplus
	Identity
	fnCount
)

// Act is y = fn(x).
func (o Ops) Act(fn Fn, y, x []float32) {
	if n := len(y); n > 0 {
		_ = x[n-1]
		act := o.k.act[fn]
		if act == nil {
			act = generic.act[fn]
		}
		act(&y[0], &x[0], n)
	}
}

// ActMul is y = fn(x)·up.
func (o Ops) ActMul(fn Fn, y, x, up []float32) {
	if n := len(y); n > 0 {
		_, _ = x[n-1], up[n-1]
		actMul := o.k.actMul[fn]
		if actMul == nil {
			actMul = generic.actMul[fn]
		}
		actMul(&y[0], &x[0], &up[0], n)
	}
}

// Exp is y = exp(by·x).
func (o Ops) Exp(y, x []float32, by float32) {
	if n := len(y); n > 0 {
		_ = x[n-1]
		o.k.exp(&y[0], &x[0], by, n)
	}
}

// Softcap is y = limit·tanh(by·x).
func (o Ops) Softcap(y, x []float32, by, limit float32) {
	if n := len(y); n > 0 {
		_ = x[n-1]
		o.k.softcap(&y[0], &x[0], by, limit, n)
	}
}
