// Package series has the polynomials that the kernels of all processors compute, highest power first, so that
// their results differ by rounding only. All were fitted at Chebyshev points.
package series

// Exp2 is 2ˣ on [-½, ½], to 2e-9 of it.
var Exp2 = []float32{0.00015461445, 0.0013400428, 0.009618057, 0.05550327, 0.24022651, 0.6931472, 1}

// Exp is eˣ for |x| ≤ ½ ln 2, to 1e-8 of it.
var Exp = []float32{0.0013926927, 0.008363774, 0.04166655, 0.16666573, 0.5, 1, 1}

// Ln 2 in two parts, the first of so few bits that its product with an exponent is exact.
const (
	Ln2High = 0.693359375
	Ln2Low  = -2.12194440e-4
)

// Erfc is ½ erfc(x/√2)·exp(x²/2)/t for x ≥ 0, with t = 1/(1 + x/4): to 2e-8 of it up to x = 14, where the exponential
// is 0.
var Erfc = []float32{
	0.015383603, -0.056345463, 0.036615256, 0.048318084, -0.00367796, 0.09537557, 0.069011636, 0.09615087, 0.09941662, 0.09975179,
}

// Tanh is (tanh(x)/x - 1)/x² in x² up to 0.4, to 2e-8 of tanh.
var Tanh = []float32{-0.006045165, 0.02096133, -0.053843264, 0.13332719, -0.33333328}

// Log1p is ln(1 + u)/u on [0, 1], to 2e-8 of it.
var Log1p = []float32{
	-0.003176057, 0.019542526, -0.05637361, 0.10543624, -0.1526967, 0.19663274, -0.24951616, 0.3332971, -0.49999893, 1,
}
