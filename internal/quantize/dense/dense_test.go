package dense

import (
	"math"
	"math/rand/v2"
	"testing"
)

func random(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// TestInverseFactor: uᵀ·u times h is the identity, for sizes around those of blocks.
func TestInverseFactor(t *testing.T) {
	e, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 5, 127, 128, 129, 300} {
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		rows := 2*n + 3
		x, h := random(rng, rows*n), make([]float32, n*n)
		e.AddGram(h, x, rows, n, Float32)
		narrow := make([]float32, n*n)
		e.AddGram(narrow, x, rows, n, BFloat16)
		whole := make([]float32, n*n)
		e.AddGram(whole, x, rows, n, Int8)
		for i, v := range whole { // a number is off by up to a 254th of the largest of 32, less than 4 here, and signs differ
			if d := math.Abs(float64(v - h[i])); d > 0.05*math.Sqrt(float64(rows))+0.05 {
				t.Fatalf("%d columns: number %d of the sum of products in 8 bits is %g, and %g in float32", n, i, v, h[i])
			}
		}
		for i, v := range narrow { // a product is off by up to 2⁻⁷ of itself, and signs differ
			if d := math.Abs(float64(v - h[i])); d > 0.02*math.Sqrt(float64(rows))+0.02 {
				t.Fatalf("%d columns: number %d of the sum of products in bf16 is %g, and %g in float32", n, i, v, h[i])
			}
		}
		for i := range n { // the sum itself
			for j := range n {
				want := 0.0
				for r := range rows {
					want += float64(x[r*n+i]) * float64(x[r*n+j])
				}
				if d := math.Abs(want - float64(h[i*n+j])); d > 1e-3*math.Sqrt(float64(rows))+1e-3 {
					t.Fatalf("%d columns: the sum at %d, %d is %g, want %g", n, i, j, h[i*n+j], want)
				}
			}
			h[i*n+i] += float32(rows)
		}
		u, err := e.InverseFactor(h, n)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			for j := range i {
				if u[i*n+j] != 0 {
					t.Fatalf("%d columns: the factor is %g below its diagonal", n, u[i*n+j])
				}
			}
		}
		uh := make([]float64, n*n) // u·h
		for i := range n {
			for k := i; k < n; k++ {
				for j := range n {
					uh[i*n+j] += float64(u[i*n+k]) * float64(h[k*n+j])
				}
			}
		}
		for i := range n {
			for j := range n {
				got := 0.0
				for k := range i + 1 {
					got += float64(u[k*n+i]) * uh[k*n+j]
				}
				want := 0.0
				if i == j {
					want = 1
				}
				if math.Abs(got-want) > 2e-3 {
					t.Fatalf("%d columns: uᵀ·u·h is %g at %d, %d", n, got, i, j)
				}
			}
		}
	}
}

// TestNotPositive: a matrix without a factor is an error that names a column.
func TestNotPositive(t *testing.T) {
	e, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Cholesky([]float32{1, 2, 2, 1}, 2); err == nil || err.Error() != "the matrix is not positive definite at column 1" {
		t.Errorf("the error is %v", err)
	}
}

// TestGramOfAnything: numbers that no format of few bits has, and what is no number, are summed as float32 does it.
func TestGramOfAnything(t *testing.T) {
	e, err := New()
	if err != nil {
		t.Fatal(err)
	}
	const rows, cols = 33, 5
	for _, bad := range []float32{1e9, -1e30, math.MaxFloat32, float32(math.Inf(1)), float32(math.NaN())} {
		x, want := random(rand.New(rand.NewPCG(1, 2)), rows*cols), make([]float32, cols*cols)
		x[7] = bad
		e.AddGram(want, x, rows, cols, Float32)
		for _, p := range []Precision{BFloat16, Int8} {
			h := make([]float32, cols*cols)
			e.AddGram(h, x, rows, cols, p)
			for i, v := range h {
				if v != want[i] && (v == v || want[i] == want[i]) {
					t.Errorf("%g in precision %d: number %d is %g instead of %g", bad, p, i, v, want[i])
				}
			}
		}
	}
}
