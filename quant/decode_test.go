package quant

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestDecodeAgainstGGML decodes the blocks of testdata/blocks.txt, whose numbers came from ggml, and wants every bit.
func TestDecodeAgainstGGML(t *testing.T) {
	file, err := os.Open("testdata/blocks.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	seen := map[Format]bool{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if fields[0] == "#" {
			continue
		}
		f, err := Parse(fields[0])
		if err != nil {
			t.Fatal(err)
		}
		block, err := hex.DecodeString(fields[1])
		if err != nil {
			t.Fatal(err)
		}
		// Two blocks in a row, so that a decoder that does not move on is found.
		got := make([]float32, 2*f.Block())
		Decode(f, got, append(block, block...))
		for i, x := range got {
			want, err := strconv.ParseUint(fields[2+i%f.Block()], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			if math.Float32bits(x) != uint32(want) {
				t.Fatalf("%s: number %d is %v, not %v", f, i, x, math.Float32frombits(uint32(want)))
			}
		}
		seen[f] = true
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	for _, f := range ReadFormats() {
		if f.Block() > 1 && f != NVFP4 && f.Descriptor().Sparsity == (Sparsity{}) && !seen[f] {
			t.Errorf("testdata/blocks.txt has no block in %s", f)
		}
	}
}

func TestDecodeFloats(t *testing.T) {
	got := make([]float32, 3)
	Decode(F32, got, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x80, 1, 0, 0, 0})
	if got[0] != 1 || !math.Signbit(float64(got[1])) || got[2] != math.SmallestNonzeroFloat32 {
		t.Errorf("F32: %v", got)
	}
	Decode(F16, got, []byte{0, 0x3c, 0, 0xc0, 1, 0})
	if got[0] != 1 || got[1] != -2 || got[2] != 0x1p-24 {
		t.Errorf("F16: %v", got)
	}
	Decode(BF16, got, []byte{0x80, 0x3f, 0, 0xc0, 1, 0})
	if got[0] != 1 || got[1] != -2 || got[2] != 0x1p-133 {
		t.Errorf("BF16: %v", got)
	}
}

func TestDecodePanicsOnWrongLengths(t *testing.T) {
	for _, c := range []struct {
		f      Format
		n, src int
		want   string
	}{
		{Q4_0, 32, 17, "quant: 32 numbers in Q4_0 are 18 bytes, not 17"},
		{Q4_K, 32, 18, "quant: 32 numbers do not divide into Q4_K blocks of 256"},
		{Format(99), 32, 18, "quant: unknown number format 99"},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != c.want {
					t.Errorf("Decode(%s, %d numbers, %d bytes) panicked with %q, not %q", c.f, c.n, c.src, got, c.want)
				}
			}()
			Decode(c.f, make([]float32, c.n), make([]byte, c.src))
		}()
	}
}

// BenchmarkDecode reports bytes of float32 output.
func BenchmarkDecode(b *testing.B) {
	const n = 1 << 16
	dst := make([]float32, n)
	for _, f := range Formats() {
		b.Run(f.String(), func(b *testing.B) {
			src := make([]byte, f.RowBytes(n))
			r := rand.New(rand.NewPCG(1, 1))
			for i := range src {
				src[i] = byte(r.Uint32())
			}
			b.SetBytes(4 * n)
			for b.Loop() {
				Decode(f, dst, src)
			}
		})
	}
}
