package quant

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestINT4Layout: the scale first, then the codes of 32 numbers after 32 as Q4_0 has them, so that blocks with a scale of 2 count halves.
func TestINT4Layout(t *testing.T) {
	x := make([]float32, 128)
	for i := range x {
		x[i] = 2 * float32(i%16-8)
	}
	x[33] = 14 // the second of the second 32, in the low half of byte 16 + 1
	b := make([]byte, INT4.RowBytes(128))
	if err := Encode(INT4, b, x); err != nil {
		t.Fatal(err)
	}
	if d := f16at(b); d != 2 {
		t.Errorf("the scale is %v, want 2", d)
	}
	for i, q := range b[2:] {
		want := byte(i%16 | i%16<<4)
		if i == 17 {
			want = 15 | 1<<4
		}
		if q != want {
			t.Errorf("byte %d of the codes is %#x, want %#x", i, q, want)
		}
	}
}

// TestINT4IsBest compares the squared error with that of every scale of a fine grid, and of absmax/8 alone, in float64.
func TestINT4IsBest(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	loss := func(x []float32, d float64) (sum float64) {
		for _, v := range x {
			e := float64(v) - d*min(max(math.RoundToEven(float64(v)/d), -8), 7)
			sum += e * e
		}
		return sum
	}
	var ours, plain, finest float64
	for range 200 {
		x, peak := make([]float32, 128), 0.0
		for i := range x {
			x[i] = float32(r.NormFloat64() * 0.02)
			if math.Abs(float64(x[i])) > math.Abs(peak) {
				peak = float64(x[i])
			}
		}
		b := make([]byte, INT4.RowBytes(128))
		if err := Encode(INT4, b, x); err != nil {
			t.Fatal(err)
		}
		back := make([]float32, 128)
		Decode(INT4, back, b)
		got := 0.0
		for i, v := range x {
			got += (float64(v) - float64(back[i])) * (float64(v) - float64(back[i]))
		}
		if of := loss(x, float64(f16at(b))); math.Abs(got-of) > 1e-6*of {
			t.Fatalf("the codes are not the nearest: squared error %v, with the nearest %v", got, of)
		}
		least := math.Inf(1)
		for steps := 7.0; steps < 11; steps += 0.05 {
			least = min(least, loss(x, -peak/steps), loss(x, peak/steps))
		}
		ours, plain, finest = ours+got, plain+loss(x, -peak/8), finest+least
	}
	if ours > 0.9*plain || ours > 1.05*finest {
		t.Errorf("squared error %.4g; with the largest number on code 0 %.4g, with the best of many scales %.4g", ours, plain, finest)
	}
}

// TestINT4Again wants numbers of the format to stay as they are where some code is 0 or 15.
func TestINT4Again(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for range 100 {
		once := make([]float32, 128)
		d := F16ToF32(F32ToF16(float32(r.NormFloat64())))
		for i := range once {
			once[i] = d * float32(r.IntN(15)-7)
		}
		once[r.IntN(128)] = d * [2]float32{-8, 7}[r.IntN(2)]
		b, twice := make([]byte, INT4.RowBytes(128)), make([]float32, 128)
		if err := Encode(INT4, b, once); err != nil {
			t.Fatal(err)
		}
		Decode(INT4, twice, b)
		for i := range once {
			if once[i] != twice[i] {
				t.Fatalf("number %d is %v, then %v", i, once[i], twice[i])
			}
		}
	}
}

func TestINT4Refuses(t *testing.T) {
	for v, want := range map[float32]string{
		524032:                 "number 40 is 524032, and the magnitude of a number in INT4 must be below 524032",
		float32(math.Inf(1)):   "number 40 is +Inf, and a block of INT4 holds only finite numbers",
		-3.4028234663852886e38: "must be below 524032",
	} {
		x := make([]float32, 128)
		x[40] = v
		if err := Encode(INT4, make([]byte, 66), x); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", v, err, want)
		}
	}
	defer func() {
		if got, want := fmt.Sprint(recover()), "quant: 64 numbers do not divide into INT4 blocks of 128"; got != want {
			t.Errorf("Encode panicked with %q, not %q", got, want)
		}
	}()
	_ = Encode(INT4, make([]byte, 33), make([]float32, 64))
}
