package builtin_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/builtin"
	"github.com/ridge-llm/ridge/internal/check"
	"github.com/ridge-llm/ridge/internal/convert"
)

const (
	demo    = "../../../shared/models/demo"
	maxSize = 14 << 20 // bytes in every program
)

func TestSize(t *testing.T) {
	if n, m := len(builtin.GGUF()), len(builtin.DiffusionGGUF()); n == 0 || m == 0 || n+m > maxSize {
		t.Errorf("the built-in models have %d and %d bytes; at most %d may go into the program", n, m, maxSize)
	}
}

// TestIsConverted converts the model again and wants the same bytes: what is built in is what ridge convert makes.
func TestIsConverted(t *testing.T) {
	if _, err := os.Stat(demo); err != nil {
		t.Skip("the model that the built-in one was made from, ../shared/models/demo, is not here")
	}
	q8, err := convert.ParseType("Q8_0")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "demo.gguf")
	if _, err := convert.Convert(t.Context(), demo, out, convert.Options{Type: q8}); err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again, builtin.GGUF()) {
		t.Error("the built-in model is not what ridge convert makes of ../shared/models/demo; run go generate ./internal/builtin")
	}
}

// TestStillTheModel: in 8 bits the model's logits are near those it had in 16. How many greedy tokens come before the first
// that differs goes with the order of sums on this machine; far fewer than usual would mean that something is broken.
func TestStillTheModel(t *testing.T) {
	if _, err := os.Stat(demo); err != nil {
		t.Skip("the results to compare with, in ../shared/models/demo, are not here")
	}
	file := filepath.Join(t.TempDir(), "demo.gguf")
	if err := os.WriteFile(file, builtin.GGUF(), 0o644); err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	res, err := check.Model(file, demo, check.Options{Devices: []backend.Device{dev}, Cache: graph.F32})
	if err != nil {
		t.Fatal(err)
	}
	if res.WorstError > 0.1 || res.GreedySame < 100 {
		t.Errorf("worst logit error %.3g, %d of %d greedy tokens before the first that differs", res.WorstError, res.GreedySame, res.Greedy)
	}
	t.Logf("worst logit error %.3g, %d of %d greedy tokens before the first that differs", res.WorstError, res.GreedySame, res.Greedy)
}
