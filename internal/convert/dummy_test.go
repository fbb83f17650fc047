package convert

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/tokenizer"
)

// TestDummy writes the smallest shape in a mixture, opens it as a model, and looks at what matters of its numbers.
func TestDummy(t *testing.T) {
	out := filepath.Join(t.TempDir(), "m.gguf")
	unknown := func(string) (int64, error) { return 0, errors.ErrUnsupported }
	if _, err := Dummy(t.Context(), "smollm2-135m", out, Options{Type: mustType(t, "Q4_K_M"), Free: unknown}); err != nil {
		t.Fatal(err)
	}
	b, err := modeldir.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if c := b.Model.Config; c.Layers != 30 || c.Vocab != 49152 || !c.Tied || c.Rotation.Theta != 100000 {
		t.Errorf("configuration %+v", c)
	}
	for _, name := range []string{"blk.3.attn_q.weight", "blk.29.ffn_down.weight", "token_embd.weight"} {
		x, _ := b.Tensor(name)
		row := make([]float32, x.Cols)
		sum, squares := 0.0, 0.0
		for r := range 64 {
			quant.Decode(x.Format, row, x.Row(r))
			for _, v := range row {
				sum += float64(v)
				squares += float64(v) * float64(v)
			}
			if r > 0 && bytes.Equal(x.Row(r), x.Row(r-1)) {
				t.Errorf("%s: rows %d and %d are alike", name, r-1, r)
			}
		}
		if mean, length := sum/64, math.Sqrt(squares/64); math.Abs(mean) > 0.7 || math.Abs(length-1) > 0.05 {
			t.Errorf("%s: rows have the length %.3f and the sum %.3f on average; 1 and 0 are meant", name, length, mean)
		}
	}
	norm, _ := b.Tensor("blk.0.attn_norm.weight")
	ones := make([]float32, norm.Cols)
	quant.Decode(norm.Format, ones, norm.Data)
	if ones[0] != 1 || ones[len(ones)-1] != 1 {
		t.Error("a norm is not 1")
	}
	dummyEncodes(t, b)
}

// TestDummyFits: what the disk has no room for is refused before it is begun, with the file, its size and what is free.
func TestDummyFits(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "m.gguf")
	var asked string
	free := func(of string) (int64, error) {
		asked = of
		return 3 << 30, nil
	}
	_, err := Dummy(t.Context(), "llama-3.1-8b", out, Options{Type: mustType(t, "Q4_0"), Free: free})
	if want := "convert: the disk has no room for " + out + ": it takes 4.33 GiB and 3.00 GiB are free"; !errors.Is(err, ErrFull) || !strings.HasPrefix(err.Error(), want) || asked != dir {
		t.Errorf("%v, of the disk of %s; want %s", err, asked, want)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v (%v)", left, err)
	}
}

// dummyEncodes: English text becomes pieces of a few letters and comes back.
func dummyEncodes(t *testing.T, b *modeldir.Dir) {
	tok, err := b.Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	const text = "The quick brown fox isn't naïve; it jumps over 27 lazy dogs, twice.\n\tWhat then?"
	ids, err := tok.Encode(text+"<|im_end|>", tokenizer.Options{ParseSpecial: true})
	if err != nil {
		t.Fatal(err)
	}
	if back := tok.Decode(ids, true); back != text {
		t.Errorf("%q came back as %q", text, back)
	}
	if end, _ := tok.EOS(); ids[len(ids)-1] != end {
		t.Errorf("<|im_end|> is %d and EOS %d", ids[len(ids)-1], end)
	}
	if len(ids) > len(text)*3/5 {
		t.Errorf("%d characters became %d tokens", len(text), len(ids))
	}
	if tok.VocabSize() != 49152 {
		t.Errorf("%d tokens", tok.VocabSize())
	}
}

// TestDummyIsTheSameEveryTime, however its rows are divided over cores.
func TestDummyIsTheSameEveryTime(t *testing.T) {
	make := func() *tensor {
		x := &tensor{name: "blk.0.ffn_up.weight", shape: []int{40, 576}, as: quant.Q4_0}
		if err := (pools{}).fill(x); err != nil {
			t.Fatal(err)
		}
		return x
	}
	const rowBytes = 576 / 32 * 18
	whole := make().rows(bytes.Repeat([]byte{1}, 40*rowBytes), 0, 40)
	again := make()
	for r := range 40 {
		if !bytes.Equal(again.rows(bytes.Repeat([]byte{2}, rowBytes), r, r+1), whole[r*rowBytes:(r+1)*rowBytes]) {
			t.Fatalf("row %d is another by itself", r)
		}
	}
}

func TestDummyVocabularies(t *testing.T) {
	for _, n := range []int{300, 32000, 262208, 600000} {
		meta := map[string]any{}
		if err := dummyText(meta, n); err != nil {
			t.Fatal(err)
		}
		tokens := meta["tokenizer.ggml.tokens"].([]string)
		seen := map[string]bool{}
		for _, s := range tokens {
			if seen[s] {
				t.Fatalf("of %d tokens %q occurs twice", n, s)
			}
			seen[s] = true
		}
		if len(tokens) != n || len(meta["tokenizer.ggml.token_type"].([]int32)) != n {
			t.Errorf("%d tokens for a vocabulary of %d", len(tokens), n)
		}
	}
	if err := dummyText(map[string]any{}, 200); err == nil {
		t.Error("256 bytes fit into 200 tokens")
	}
}

// TestDummyBiasesOfExperts: a row of zeros each, handed out in parts.
func TestDummyBiasesOfExperts(t *testing.T) {
	b := &tensor{name: "blk.0.ffn_gate_exps.bias", shape: []int{3, 5}, as: quant.F32}
	if err := (pools{}).fill(b); err != nil {
		t.Fatal(err)
	}
	if got := b.rows(nil, 1, 3); !bytes.Equal(got, make([]byte, 2*5*4)) {
		t.Errorf("two rows of five numbers are %d bytes: %v", len(got), got)
	}
}
