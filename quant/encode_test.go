package quant

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// hardRows are rows of 256 numbers that tempt an encoder to go wrong.
func hardRows() map[string][]float32 {
	r := rand.New(rand.NewPCG(3, 5))
	fill := func(f func(i int) float64) []float32 {
		x := make([]float32, 256)
		for i := range x {
			x[i] = float32(f(i))
		}
		return x
	}
	normal := func(int) float64 { return r.NormFloat64() }
	return map[string][]float32{
		"normal":               fill(normal),
		"uniform":              fill(func(int) float64 { return r.Float64() }),
		"wide":                 fill(func(int) float64 { return math.Exp(3*r.NormFloat64()) * float64(1-2*r.IntN(2)) }),
		"zeros":                fill(func(int) float64 { return 0 }),
		"ones":                 fill(func(int) float64 { return 1 }),
		"minus ones":           fill(func(int) float64 { return -1 }),
		"signs":                fill(func(i int) float64 { return float64(1 - 2*(i%2)) }),
		"ramp":                 fill(func(i int) float64 { return float64(i)/100 - 1 }),
		"far from zero":        fill(func(i int) float64 { return 1000 + float64(i)/256 }),
		"far below zero":       fill(func(i int) float64 { return -1000 - float64(i)/256 }),
		"outlier":              fill(func(i int) float64 { return map[bool]float64{true: -500, false: 0.01 * r.NormFloat64()}[i == 77] }),
		"outlier among ones":   fill(func(i int) float64 { return map[bool]float64{true: 100, false: 1}[i == 200] }),
		"fading sub-blocks":    fill(func(i int) float64 { return r.NormFloat64() * math.Exp2(-float64(i/16)) }),
		"small scales":         fill(func(int) float64 { return 1e-6 * r.NormFloat64() }),
		"below f16":            fill(func(int) float64 { return 1e-9 * r.NormFloat64() }),
		"float32 subnormals":   fill(func(i int) float64 { return 0x1p-149 * float64(i) }),
		"one float32 smallest": fill(func(i int) float64 { return map[bool]float64{true: 0x1p-149}[i == 3] }),
		"large":                fill(func(int) float64 { return 30000 * (2*r.Float64() - 1) }),
	}
}

// worst is by how much the round trip of x goes past the format's bound, at most; positive means too far.
func worst(t *testing.T, f Format, x []float32) float64 {
	t.Helper()
	b := make([]byte, f.RowBytes(len(x)))
	if err := Encode(f, b, x); err != nil {
		t.Fatal(err)
	}
	back := make([]float32, len(x))
	Decode(f, back, b)
	over := math.Inf(-1)
	for i, v := range x {
		m := 0.0
		for _, o := range x[i/f.Block()*f.Block():][:f.Block()] {
			m = max(m, math.Abs(float64(o)))
		}
		bound := descriptors[f].bound
		over = max(over, math.Abs(float64(v)-float64(back[i]))-bound.relative*m-bound.absolute)
		if over > 0 || math.IsNaN(over) {
			t.Errorf("%s: number %d, %v in a block up to %v, came back as %v", f, i, v, m, back[i])
			return over
		}
	}
	return over
}

func TestRoundTripBound(t *testing.T) {
	rows := hardRows()
	r := rand.New(rand.NewPCG(9, 9))
	for _, f := range append(Formats(), INT4) {
		for name, x := range rows {
			if over := worst(t, f, x); over > 0 {
				t.Errorf("%s, row %q: %v past the bound", f, name, over)
			}
		}
		// The largest numbers that are allowed, and rows of every kind at every size.
		limit := float32(min(descriptors[f].bound.limit, math.MaxFloat32))
		edge := math.Nextafter32(limit, 0)
		big := make([]float32, 256)
		for i := range big {
			big[i] = edge * float32(1-2*r.IntN(2)) * float32(1-r.IntN(4)/3)
		}
		worst(t, f, big)
		for range 200 {
			kind, size := r.IntN(4), float32(math.Exp2(20-50*r.Float64()))
			size = min(size, limit/16)
			x := make([]float32, 256)
			for i := range x {
				x[i] = size * [4]float32{float32(r.NormFloat64()), r.Float32(), float32(r.IntN(5) - 2), float32(r.ExpFloat64()) * float32(1-2*r.IntN(2))}[kind]
			}
			worst(t, f, x)
		}
	}
}

// TestZerosStayZero wants a row of zeros back as zeros exactly, in every format.
func TestZerosStayZero(t *testing.T) {
	for _, f := range append(Formats(), INT4) {
		x := make([]float32, 256)
		b := bytes.Repeat([]byte{0xff}, int(f.RowBytes(256))) // what was there before must not matter
		if err := Encode(f, b, x); err != nil {
			t.Fatal(err)
		}
		Decode(f, x, b)
		for i, v := range x {
			if v != 0 {
				t.Fatalf("%s: zero number %d came back as %v", f, i, v)
			}
		}
	}
}

// TestEncodeIsIdempotent wants encoded numbers to encode to themselves where every number of the format is a code times a
// scale that the encoder finds again: not where the scale is too small for f16, nor where it is searched for.
func TestEncodeIsIdempotent(t *testing.T) {
	rows := hardRows()
	for _, f := range []Format{F32, F16, BF16, Q8_0, Q4_0, Q5_0, MXFP4} {
		for _, name := range []string{"normal", "uniform", "wide", "zeros", "signs", "ramp", "outlier", "large"} {
			x := rows[name]
			once, twice := make([]float32, len(x)), make([]float32, len(x))
			b := make([]byte, f.RowBytes(len(x)))
			if err := Encode(f, b, x); err != nil {
				t.Fatal(err)
			}
			Decode(f, once, b)
			if err := Encode(f, b, once); err != nil {
				t.Fatal(err)
			}
			Decode(f, twice, b)
			for i := range once {
				if once[i] != twice[i] {
					t.Errorf("%s, row %q: number %d is %v, then %v", f, name, i, once[i], twice[i])
					break
				}
			}
		}
	}
}

// TestErrorAgainstGGML holds the relative RMS error on normal numbers (seed below) to what ggml's reference quantisers
// reach on the same numbers.
func TestErrorAgainstGGML(t *testing.T) {
	ggml := map[Format]float64{
		Q8_0: 0.00537, Q4_0: 0.08628, Q4_1: 0.07826, Q5_0: 0.04290, Q5_1: 0.03799, Q2_K: 0.29420, Q3_K: 0.15116, Q4_K: 0.07145, Q5_K: 0.03613, Q6_K: 0.01773, IQ4_NL: 0.07881, MXFP4: 0.11423, IQ4_XS: 0.07709,
		IQ2_XXS: 0.34491, IQ2_XS: 0.30155, IQ2_S: 0.26567, IQ3_XXS: 0.21468, IQ3_S: 0.16683, // the first two with importances of 1, without which they are refused
		IQ1_S: 0.48503, IQ1_M: 0.45141, // likewise
	}
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, 256*200)
	energy := 0.0
	for i := range x {
		x[i] = float32(r.NormFloat64() * 0.02)
		energy += float64(x[i]) * float64(x[i])
	}
	for _, f := range Formats() {
		if f.Block() == 1 || f.Descriptor().Sparsity != (Sparsity{}) {
			continue
		}
		b := make([]byte, f.RowBytes(len(x)))
		if err := Encode(f, b, x); err != nil {
			t.Fatal(err)
		}
		back := make([]float32, len(x))
		Decode(f, back, b)
		loss := 0.0
		for i := range x {
			loss += (float64(x[i]) - float64(back[i])) * (float64(x[i]) - float64(back[i]))
		}
		if rms := math.Sqrt(loss / energy); rms > ggml[f]*1.001 {
			t.Errorf("%s: the relative RMS error is %.5f, and ggml's is %.5f", f, rms, ggml[f])
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	row := func(v float32) []float32 {
		x := make([]float32, 256)
		x[40] = v
		return x
	}
	inf, nan := float32(math.Inf(-1)), float32(math.NaN())
	for _, c := range []struct {
		f    Format
		v    float32
		want string // empty: it is taken, and comes back
	}{
		{F32, nan, ""}, {F32, inf, ""}, {F16, nan, ""}, {F16, inf, ""}, {BF16, nan, ""}, {BF16, inf, ""},
		{F16, 65504, ""},
		{F16, 65520, "quant: number 40 is 65520, and the magnitude of a number in F16 must be below 65520"},
		{BF16, -math.MaxFloat32, "quant: number 40 is -3.4028235e+38, and the magnitude of a number in BF16 must be below 3.3961775e+38"},
		{Q8_0, nan, "quant: number 40 is NaN, and a block of Q8_0 holds only finite numbers"},
		{Q4_K, inf, "quant: number 40 is -Inf, and a block of Q4_K holds only finite numbers"},
		{MXFP4, inf, "quant: number 40 is -Inf, and a block of MXFP4 holds only finite numbers"},
		{Q4_0, 1e6, "quant: number 40 is 1e+06, and the magnitude of a number in Q4_0 must be below 524032"},
	} {
		x, b := row(c.v), make([]byte, c.f.RowBytes(256))
		err := Encode(c.f, b, x)
		if c.want != "" {
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			continue
		}
		Decode(c.f, x, b)
		if err != nil || x[40] != c.v && !(c.v != c.v && x[40] != x[40]) {
			t.Errorf("%s: %v came back as %v (%v)", c.f, c.v, x[40], err)
		}
	}
	defer func() {
		if got, want := fmt.Sprint(recover()), "quant: 33 numbers do not divide into Q8_0 blocks of 32"; got != want {
			t.Errorf("Encode panicked with %q, not %q", got, want)
		}
	}()
	_ = Encode(Q8_0, make([]byte, 34), make([]float32, 33))
}

// BenchmarkEncode reports bytes of float32 input.
func BenchmarkEncode(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, 1<<14)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for _, f := range append(Formats(), INT4) {
		b.Run(f.String(), func(b *testing.B) {
			dst := make([]byte, f.RowBytes(len(x)))
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				if err := Encode(f, dst, x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
