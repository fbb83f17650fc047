package gemm

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/quant"
)

// TestPackTwoWays packs in one call, in parts, and in place: the bytes must be the same under every tier.
func TestPackTwoWays(t *testing.T) {
	for _, f := range quant.Formats() {
		if PackedBytes(f, 64, 256) == 0 {
			continue
		}
		rng := rand.New(rand.NewPCG(8, uint64(f)))
		tensor := randomTensor(rng, f, 96, 512)
		want := make([]byte, PackedBytes(f, 96, 512))
		Pack(Generic, want, tensor, 0, 96)
		eachTier(t, func(t *testing.T, tier Tier) {
			parts := make([]byte, len(want))
			Pack(tier, parts[PackedBytes(f, 32, 512):], tensor, 32, 96)
			Pack(tier, parts, tensor, 0, 32)
			if !bytes.Equal(parts, want) {
				t.Errorf("%v packed in parts differs", f)
			}
			if len(want) != len(tensor.Data) { // codes of their own, which take more
				return
			}
			own := tensor
			own.Data = bytes.Clone(tensor.Data)
			Pack(tier, own.Data, own, 0, 96)
			if !bytes.Equal(own.Data, want) {
				t.Errorf("%v packed in place differs", f)
			}
		})
	}
}

// TestPackedBytes: nothing grows, except the last rows to a whole panel of NR.
func TestPackedBytes(t *testing.T) {
	for _, f := range quant.Formats() {
		if _, packed := packings[f]; !packed && f.Block() > 1 || f.Descriptor().CodeGroup > 0 {
			continue
		}
		tensor := f.RowBytes(512) * 64
		switch got := PackedBytes(f, 64, 512); {
		case f.Block() == 1 && got != 0:
			t.Errorf("%v takes %d bytes packed; floats are not packed", f, got)
		case f.Block() > 1 && got != tensor:
			t.Errorf("%v takes %d bytes packed, and %d in the file", f, got, tensor)
		case f.Block() > 1 && PackedBytes(f, 33, 512) != tensor:
			t.Errorf("33 rows of %v take %d bytes packed, not those of 64 rows", f, PackedBytes(f, 33, 512))
		}
	}
}

// TestPackedRefuses gives wrong sizes.
func TestPackedRefuses(t *testing.T) {
	for _, c := range []struct {
		f          quant.Format
		rows, cols int
		bytes      int
	}{
		{quant.Q4_0, 32, 33, 18 * 32}, {quant.Q4_0, 32, 32, 18*32 - 1}, {quant.Q4_0, 0, 32, 0}, {quant.Q4_0, 33, 32, 18 * 33},
		{quant.F32, 3, 3, 35}, {quant.Invalid, 1, 1, 4},
	} {
		if _, err := Packed(c.f, c.rows, c.cols, make([]byte, c.bytes)); err == nil {
			t.Errorf("%d bytes were taken for %d × %d in format %d", c.bytes, c.rows, c.cols, c.f)
		}
	}
}

// TestChoose resolves the names of RIDGE_CPU.
func TestChoose(t *testing.T) {
	have := Tiers()
	if got, err := Choose(""); err != nil || got != have[0] {
		t.Errorf(`Choose("") is %v, %v; want %v`, got, err, have[0])
	}
	if got, err := Choose("generic"); err != nil || got != Generic {
		t.Errorf(`Choose("generic") is %v, %v`, got, err)
	}
	for _, tier := range have {
		if got, err := Choose(tier.String()); err != nil || got != tier {
			t.Errorf("Choose(%q) is %v, %v", tier, got, err)
		}
	}
	if got, err := Choose("mmx"); err == nil {
		t.Errorf(`Choose("mmx") is %v`, got)
	}
}

// TestPeak measures: every tier but plain Go must know its limit. Only the upper bound says something of the measurement: under
// emulation, or when another process takes the processor, the rate may be arbitrarily low, and not zero.
func TestPeak(t *testing.T) {
	eachTier(t, func(t *testing.T, tier Tier) {
		data := make([]byte, 1<<20)
		if got := PeakRead(tier, data); got <= 0 || got > 1e13 {
			t.Errorf("reading runs at %g bytes a second", got)
		}
		for _, f := range []ActFormat{Float32, Q8, ActFormatOf(tier, quant.BF16)} {
			switch got := Peak(tier, f, time.Millisecond); {
			case tier == Generic && got != 0:
				t.Errorf("plain Go has a peak of %g", got)
			case tier != Generic && (got <= 0 || got > 1e14):
				t.Errorf("activations of format %d peak at %g operations a second", f, got)
			}
		}
	})
}
