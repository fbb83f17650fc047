package convert

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights"
)

// TestImportance: with importances a matrix's error, counted by them, is less than without, and other matrices are the same; importances of another model
// are refused.
func TestImportance(t *testing.T) {
	const name, cols = "blk.2.ffn_up.weight", 256
	q4, err := ParseType("Q4_0")
	if err != nil {
		t.Fatal(err)
	}
	importance := make([]float32, cols)
	for c := range importance {
		importance[c] = []float32{100, 1, 0, 1}[c%4]
	}
	const first = "blk.0.ffn_down.weight" // of the first eighth of the layers
	convert := func(of func(string) []float32) *weights.Source {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out.gguf")
		if _, err := Convert(t.Context(), demoModel, out, Options{Type: q4, Importance: of}); err != nil {
			t.Fatal(err)
		}
		s, err := weights.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	plain := convert(nil)
	weighted := convert(func(n string) []float32 {
		if n == name {
			return importance
		}
		return nil
	})
	from, err := weights.Open(demoModel)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	tensor := func(s *weights.Source, name string) quant.Tensor {
		t.Helper()
		x, err := s.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	want := tensor(from, name).Floats()
	loss := func(s *weights.Source) (sum float64) {
		for i, v := range tensor(s, name).Floats() {
			d := float64(v - want[i])
			sum += d * d * float64(importance[i%cols])
		}
		return sum
	}
	if a, b := loss(weighted), loss(plain); a > 0.8*b {
		t.Errorf("the error is %g, and %g without importances", a, b)
	}
	if f := tensor(weighted, first).Format; f != quant.Q4_1 {
		t.Errorf("with importances %s is in %s, and llama-quantize has it in Q4_1", first, f)
	}
	for _, n := range plain.Names() {
		if n == first {
			continue
		}
		if same := bytes.Equal(tensor(plain, n).Data, tensor(weighted, n).Data); same != (n != name) {
			t.Errorf("%s is the same: %t", n, same)
		}
	}
	for want, of := range map[string]func(string) []float32{
		"no matrix of the file has importances": func(string) []float32 { return nil },
		"are 255 numbers, which do not fit":     func(string) []float32 { return importance[1:] },
	} {
		_, err := Convert(t.Context(), demoModel, filepath.Join(t.TempDir(), "out.gguf"), Options{Type: q4, Importance: of})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; it should say %q", err, want)
		}
	}
}
