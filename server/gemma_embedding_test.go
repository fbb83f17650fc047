package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/weights/safetensors"
)

// TestEmbeddingGemma: an encoder that was a decoder, with its dense layers behind the mean, gives the embeddings that Sentence Transformers made over HTTP, several in one request; a shorter vector is the
// beginning of the whole one at length 1; and it generates nothing.
func TestEmbeddingGemma(t *testing.T) {
	const source, vocabulary = "../internal/check/testdata/gemma-embedding", 96
	tokens := map[string]int{}
	for i := range vocabulary {
		tokens[fmt.Sprintf("t%d", i)] = i
	}
	text, err := json.Marshal(map[string]any{"model": map[string]any{"type": "BPE", "vocab": tokens, "merges": []string{}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false}, "decoder": map[string]any{"type": "ByteLevel"}})
	dir := t.TempDir()
	if err := errors.Join(err, os.CopyFS(dir, os.DirFS(source)), os.WriteFile(filepath.Join(dir, "tokenizer.json"), text, 0o600)); err != nil {
		t.Fatal(err)
	}
	h, _ := startFile(t, dir, ridge.Options{Cache: "f32"}, server.Options{Name: "gemma"})
	f, err := safetensors.Open(filepath.Join(source, "embeddings.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var ids [][]int32
	var want [][]float64
	for _, x := range f.Tensors {
		for r := range x.Shape[0] {
			var row []int32
			var numbers []float64
			for k := range x.Shape[1] {
				b := x.Data[4*(r*x.Shape[1]+k):]
				bits := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
				row, numbers = append(row, int32(bits)), append(numbers, float64(math.Float32frombits(bits)))
			}
			if x.Name == "input_ids" {
				ids = append(ids, row)
			} else {
				want = append(want, numbers)
			}
		}
	}
	if len(ids) < 2 || len(ids) != len(want) {
		t.Fatalf("%d texts and %d embeddings", len(ids), len(want))
	}
	same := func(where string, got, want []float64) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%s: %d numbers, and should be %d", where, len(got), len(want))
		}
		for k := range got {
			if math.Abs(got[k]-want[k]) > 1e-4 {
				t.Fatalf("%s: number %d is %g, and should be %g", where, k, got[k], want[k])
			}
		}
	}
	ask := func(fields string) (all [][]float64) {
		t.Helper()
		list, err := json.Marshal(ids)
		if err != nil {
			t.Fatal(err)
		}
		status, text := post(t, h, "/v1/embeddings", `{"model": "gemma", "input": `+string(list)+fields+`}`)
		var a struct {
			Data []struct{ Embedding []float64 }
		}
		if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 || len(a.Data) != len(ids) {
			t.Fatalf("%d %s", status, text)
		}
		for _, x := range a.Data {
			all = append(all, x.Embedding)
		}
		return all
	}
	for i, v := range ask("") {
		same(fmt.Sprint("text ", i), v, want[i])
	}
	for i, v := range ask(`, "dimensions": 8`) {
		part, length := append([]float64{}, want[i][:8]...), 0.0
		for _, x := range part {
			length += x * x
		}
		for k := range part {
			part[k] /= math.Sqrt(length)
		}
		same(fmt.Sprint("8 numbers of text ", i), v, part)
	}
	if status, body := post(t, h, "/v1/completions", `{"model": "gemma", "prompt": [5, 6]}`); status != 400 || !strings.Contains(body, "embeddings") {
		t.Errorf("%d %s", status, body)
	}
}
