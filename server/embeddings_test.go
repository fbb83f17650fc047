package server_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestEmbeddings: texts and token ids, floats and base64, shortened and whole say the same, in both APIs.
func TestEmbeddings(t *testing.T) {
	h, m := start(t, ridge.Options{}, server.Options{})
	var a struct {
		Data []struct {
			Index     int
			Embedding json.RawMessage
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
			Total  int `json:"total_tokens"`
		}
	}
	ask := func(body string) {
		t.Helper()
		a.Data = nil
		status, text := post(t, h, "/v1/embeddings", body)
		if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 || len(a.Data) == 0 {
			t.Fatalf("%d: %s", status, text)
		}
	}
	vector := func(raw json.RawMessage) (v []float32) {
		t.Helper()
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		return v
	}
	ids, err := m.Encode("The cat sat.", true)
	if err != nil {
		t.Fatal(err)
	}
	tokens, _ := json.Marshal(ids)

	ask(`{"model": "demo", "input": ["The cat sat.", "A dog"]}`)
	whole := vector(a.Data[0].Embedding)
	if len(whole) != m.Width() || len(a.Data) != 2 || a.Data[1].Index != 1 || a.Usage.Prompt <= len(ids) || a.Usage.Total != a.Usage.Prompt {
		t.Errorf("%d numbers in %d embeddings, usage %+v", len(whole), len(a.Data), a.Usage)
	}
	for _, input := range []string{`"The cat sat."`, string(tokens), "[" + string(tokens) + "]"} {
		ask(`{"input": ` + input + `}`)
		if !slices.Equal(vector(a.Data[0].Embedding), whole) {
			t.Errorf("%s has another embedding", input)
		}
	}

	ask(`{"input": "The cat sat.", "encoding_format": "base64", "dimensions": 8}`)
	var text string
	if err := json.Unmarshal(a.Data[0].Embedding, &text); err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != 32 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	var square, along float64
	for i := range 8 {
		x := float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
		square, along = square+x*x, along+x*float64(whole[i])
	}
	if math.Abs(square-1) > 1e-5 || along <= 0 {
		t.Errorf("the shortened vector has square %g and goes %g along the whole one", square, along)
	}

	var o struct {
		Embeddings [][]float32
		Embedding  []float32
		Count      int `json:"prompt_eval_count"`
	}
	for _, c := range [][2]string{{"/api/embed", `{"model": "demo:latest", "input": ["The cat sat."]}`}, {"/api/embeddings", `{"model": "demo", "prompt": "The cat sat."}`}} {
		_, text := post(t, h, c[0], c[1])
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			t.Fatalf("%s: %v in %s", c[0], err, text)
		}
	}
	if len(o.Embeddings) != 1 || !slices.Equal(o.Embeddings[0], whole) || !slices.Equal(o.Embedding, whole) || o.Count != len(ids) {
		t.Errorf("Ollama's paths say something else: %d embeddings, %d tokens", len(o.Embeddings), o.Count)
	}
}

func TestEmbeddingRefusals(t *testing.T) {
	h, m := start(t, ridge.Options{Context: 64}, server.Options{})
	many := strings.TrimSuffix(strings.Repeat(`"a",`, 2049), ",")
	long := strings.Repeat("word ", 100)
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/v1/embeddings", `{}`, 400, "input is missing"},
		{"/v1/embeddings", `{"input": []}`, 400, "input is missing"},
		{"/v1/embeddings", `{"input": {"a": 1}}`, 400, "input is missing, empty, or neither"},
		{"/v1/embeddings", `{"input": ""}`, 400, "empty"},
		{"/v1/embeddings", `{"input": "` + long + `"}`, 400, "the context is 64"},
		{"/v1/embeddings", `{"input": [[99999]]}`, 400, "99999"},
		{"/v1/embeddings", `{"input": [` + many + `]}`, 400, "2049 texts"},
		{"/v1/embeddings", `{"input": "x", "encoding_format": "int8"}`, 400, "float and base64"},
		{"/v1/embeddings", `{"input": "x", "dimensions": 0}`, 400, "dimensions is 0"},
		{"/v1/embeddings", `{"input": "x", "dimensions": 100000}`, 400, "have " + strconv.Itoa(m.Width()) + " numbers"},
		{"/v1/embeddings", `{"input": "x", "model": "other"}`, 404, "no model"},
		{"/api/embed", `{"input": 7}`, 400, "input should be"},
		{"/api/embed", `{"input": "` + long + `", "truncate": false}`, 400, "the context is 64"},
		{"/api/embed", `{"input": "` + long + `"}`, 200, "embeddings"},
	} {
		if status, text := post(t, h, c.path, c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%.60s: %d %.300s", c.body, status, text)
		}
	}
}
