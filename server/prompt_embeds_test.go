package server_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestPromptEmbeds: completions take prompts of embeddings as vLLM does, before those of text, and answer them as the library does; what is no such tensor is refused.
func TestPromptEmbeds(t *testing.T) {
	h, m := start(t, ridge.Options{}, server.Options{})
	const tokens = 5
	random := rand.New(rand.NewPCG(1, 2))
	rows, data := make([]float32, tokens*m.Width()), []byte(nil)
	for i := range rows {
		rows[i] = float32(random.NormFloat64())
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(rows[i]))
	}
	saved := func(width int) string { // as torch.save does
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		n := func(x int) string { return "M" + string(binary.LittleEndian.AppendUint16(nil, uint16(x))) }
		for name, text := range map[string]string{
			"archive/data.pkl": "\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu" + n(len(rows)) + "tQK\x00" +
				n(len(rows)/width) + n(width) + "\x86" + n(width) + "K\x01\x86\x89ccollections\nOrderedDict\n)RtR.",
			"archive/data/0": string(data),
		} {
			f, err := w.CreateHeader(&zip.FileHeader{Name: name})
			if err == nil {
				_, err = f.Write([]byte(text))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(b.Bytes())
	}
	p := ridge.Greedy()
	p.MaxTokens = 8
	want, err := ridge.Text(m.GenerateEmbeddings(context.Background(), rows, p))
	if err != nil {
		t.Fatal(err)
	}
	status, text := post(t, h, "/v1/completions", fmt.Sprintf(`{"prompt_embeds": [%q], "prompt": "Once", "max_tokens": 8, "temperature": 0, "n": 2}`, saved(m.Width())))
	a := parse(t, text)
	if status != 200 || len(a.Choices) != 4 || a.Choices[0].Text != want || a.Choices[1].Text != want || a.Choices[2].Text == want || a.Choices[3].Index != 3 || a.Usage.Prompt < tokens {
		t.Errorf("%d: %s; %q wanted", status, text, want)
	}
	if status, text := post(t, h, "/v1/completions", fmt.Sprintf(`{"prompt_embeds": %q, "max_tokens": 8, "temperature": 0}`, saved(m.Width()))); status != 200 || parse(t, text).Choices[0].Text != want {
		t.Errorf("alone: %d: %s; %q wanted", status, text, want)
	}
	// OpenAI's clients send no request without a prompt, and vLLM's documents have them send an empty one.
	for _, prompt := range []string{`""`, `null`} {
		if status, text := post(t, h, "/v1/completions", fmt.Sprintf(`{"prompt_embeds": %q, "prompt": %s, "max_tokens": 8, "temperature": 0}`, saved(m.Width()), prompt)); status != 200 || parse(t, text).Choices[0].Text != want || len(parse(t, text).Choices) != 1 {
			t.Errorf("beside the prompt %s: %d: %s; %q wanted", prompt, status, text, want)
		}
	}
	if status, text := post(t, h, "/v1/completions", `{"prompt_embeds": null, "prompt": "Once", "max_tokens": 2}`); status != 200 || len(parse(t, text).Choices) != 1 {
		t.Errorf("null: %d: %s", status, text)
	}
	for want, fields := range map[string]string{
		"is no base64":           `"prompt_embeds": "!"`,
		"not the ZIP archive":    `"prompt_embeds": "AAAA"`,
		"256] is wanted":         fmt.Sprintf(`"prompt_embeds": %q`, saved(m.Width()/2)),
		"should be base64":       `"prompt_embeds": 3`,
		"echo and suffix":        fmt.Sprintf(`"prompt_embeds": %q, "echo": true`, saved(m.Width())),
		"prompt is missing or e": `"prompt_embeds": []`,
	} {
		if status, text := post(t, h, "/v1/completions", `{"max_tokens": 2, `+fields+`}`); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s; %q wanted", fields[:min(len(fields), 40)], status, text, want)
		}
	}
}
