package adapter

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
	"github.com/ridge-llm/ridge/weights/safetensors"
)

// TestCopyFinite: what is copied is what was there, and the first number that is infinite or none is found wherever it lies, in rows of any length.
func TestCopyFinite(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for _, f := range []quant.Format{quant.F32, quant.F16, quant.BF16} {
		size := f.BlockBytes()
		for range 2000 {
			n := 1 + r.IntN(40)
			if r.IntN(20) == 0 {
				n = 3000 + r.IntN(2000)
			}
			src := make([]byte, n*size)
			want := -1
			for i := n - 1; i >= 0; i-- {
				bits := r.Uint32() &^ 0x4000_4000 // so that the exponent has a bit that is not set
				if r.IntN(n*2) == 0 {
					bits |= map[quant.Format]uint32{quant.F32: 0x7f80_0000, quant.F16: 0x7c00, quant.BF16: 0x7f80}[f]
					want = i * size
				}
				if size == 4 {
					binary.LittleEndian.PutUint32(src[i*4:], bits)
				} else {
					binary.LittleEndian.PutUint16(src[i*2:], uint16(bits))
				}
			}
			for _, copied := range []bool{false, true} {
				dst := make([]byte, len(src))
				if got := copyFinite(dst, src, f, copied); got != want {
					t.Fatalf("%s, %d numbers: %d is said to be wrong, and %d is", f, n, got, want)
				}
				if copied && !bytes.Equal(dst, src) {
					t.Fatalf("%s, %d numbers: the copy differs", f, n)
				}
			}
		}
	}
}

// BenchmarkRead reads an adapter of 64 MB from the page cache, checks it and copies it.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	const modules, rows, cols = 64, 64, 8192
	path := writeRandom(b, dir, modules, rows, cols)
	for _, goroutines := range []int{1, 2} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			b.SetBytes(modules * 2 * rows * cols)
			for range b.N {
				if _, err := Read(path, goroutines); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// writeRandom writes a PEFT folder in BF16 whose modules have A [rows/2, cols] and B [cols, rows/2].
func writeRandom(b *testing.B, dir string, modules, rows, cols int) string {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, rows*cols) // of half of the numbers
	for i := 0; i < len(data); i += 2 {
		binary.LittleEndian.PutUint16(data[i:], uint16(math.Float32bits(float32(r.NormFloat64()))>>16))
	}
	tensors := map[string][]int{}
	for m := range modules {
		name := fmt.Sprintf("base_model.model.model.layers.%d.self_attn.q_proj", m)
		tensors[name+".lora_A.weight"], tensors[name+".lora_B.weight"] = []int{rows / 2, cols}, []int{cols, rows / 2}
	}
	var list []safetensors.Output
	for name, shape := range tensors {
		list = append(list, safetensors.Output{Name: name, DType: "BF16", Shape: shape, Data: func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		}})
	}
	err := weights.WriteFile(filepath.Join(dir, weightsFile), func(w io.Writer) error { return safetensors.Write(w, nil, list) })
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, configFile), fmt.Appendf(nil, `{"peft_type": "LORA", "r": %d, "lora_alpha": 1, "target_modules": ["q_proj"]}`, rows/2), 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	return dir
}
