package ridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/internal/testkit"
)

// TestDiffusion: a masked diffusion model's text is upstream's, from a directory and from the GGUF file made of it; it ends before a stop string, its pieces
// come a block at a time, and what the model cannot do is refused.
func TestDiffusion(t *testing.T) {
	for _, name := range []string{"llada-tied-bias", "dream"} {
		from, dir := filepath.Join("internal/check/testdata", name), t.TempDir()
		if err := testkit.WriteDiffusion(dir, from); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "model.gguf")
		if _, err := convert.Convert(t.Context(), dir, file, convert.Options{}); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(from, "denoised.json"))
		if err != nil {
			t.Fatal(err)
		}
		var want struct {
			Prompt []int32 `json:"prompt_ids"`
			Cases  []struct {
				Block  int `json:"block_length"`
				Steps  int
				Exact  bool
				IDs    []int32
				Passes int
			}
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		c := want.Cases[6]
		for _, path := range []string{dir, file} {
			m, err := ridge.Load(path, ridge.Options{Threads: 1, Backend: "ref", Cache: "f32"})
			if err != nil {
				t.Fatal(err)
			}
			p := m.Defaults() // greedy
			p.MaxTokens, p.Diffusion = len(c.IDs), ridge.Diffusion{Steps: c.Steps, Block: c.Block, Exact: c.Exact}
			ask := func(p ridge.Params) (text string, pieces int, finish ridge.Finish) {
				for piece, err := range m.Generate(t.Context(), m.Decode(want.Prompt), p) {
					if err != nil {
						t.Fatal(err)
					}
					text += piece.Text
					pieces++
					if piece.Finish != nil {
						finish = *piece.Finish
					}
				}
				return text, pieces, finish
			}
			text, _, finish := ask(p)
			if text != m.Decode(c.IDs) || finish.Steps != c.Passes || finish.Output != len(c.IDs) || finish.Prompt != len(want.Prompt) {
				t.Errorf("%s: %q, %+v; %q in %d steps wanted", path, text, finish, m.Decode(c.IDs), c.Passes)
			}
			p.Stop = []string{text[10:12]}
			if cut, _, finish := ask(p); cut != text[:strings.Index(text, p.Stop[0])] || finish.Reason != ridge.FinishStop || finish.Stop != p.Stop[0] {
				t.Errorf("%s: %q before %q, %+v; the whole is %q", path, cut, p.Stop, finish, text)
			}
			if e, err := m.Embed(t.Context(), "once upon"); err != nil || len(e.Vector) != 32 {
				t.Errorf("embedding gave %v, %v", e, err)
			}
			if !m.FillsIn() {
				t.Error("the model does not say that it is a masked diffusion model")
			}
			m.Close()
		}
		for want, o := range map[string]ridge.Options{
			"Speculation is set": {Speculation: ridge.Speculation{Method: "ngram"}},
			"EarlyExit is set":   {EarlyExit: ridge.EarlyExit{Layers: []int{1}, Threshold: 0.5}},
			"cannot be replayed": {Record: &bytes.Buffer{}},
		} {
			if m, err := ridge.Load(dir, o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q was wanted, and %v came", want, err)
				if err == nil {
					m.Close()
				}
			}
		}
	}
	m, err := ridge.Load("", ridge.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p := ridge.Greedy()
	p.Diffusion.Block = 4
	if _, err := ridge.Text(m.Generate(context.Background(), "a", p)); err == nil || !strings.Contains(err.Error(), "writes from left to right") || m.FillsIn() {
		t.Errorf("blocks of the built-in model: %v", err)
	}
}

// TestBuiltinDiffusion: the model in the program knows what it was trained on, and finds several tokens a step where it is sure of them.
func TestBuiltinDiffusion(t *testing.T) {
	m, err := ridge.Load("builtin:diffusion", ridge.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p := ridge.Greedy()
	p.MaxTokens, p.Diffusion = 64, ridge.Diffusion{Threshold: 0.7}
	var answer strings.Builder
	var finish ridge.Finish
	for piece, err := range m.Chat(t.Context(), []chat.Message{{Role: "user", Content: "What is a KV cache?"}}, p) {
		if err != nil {
			t.Fatal(err)
		}
		answer.WriteString(piece.Text)
		if piece.Finish != nil {
			finish = *piece.Finish
		}
	}
	if got := answer.String(); !strings.Contains(got, "keys and values") || finish.Reason != ridge.FinishStop || finish.Steps >= 64 {
		t.Errorf("the answer is %q, found in %d steps: %+v", got, finish.Steps, finish)
	}
}
