package server_test

import (
	"encoding/json"
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/internal/testkit/leaks"
	"github.com/ridge-llm/ridge/server"
)

// startEncoder is a server of a small encoder of a kind.
func startEncoder(t *testing.T, architecture string) *httptest.Server {
	t.Helper()
	dir := t.TempDir()
	if err := testkit.WriteEncoder(dir, architecture); err != nil {
		t.Fatal(err)
	}
	leaks.Check(t)
	m, err := ridge.Load(dir, ridge.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(server.New(m, server.Options{Name: "encoder"}))
	t.Cleanup(func() { h.Close(); leaks.Pages(t, m); m.Close() })
	return h
}

// TestRerank: documents come back best first, under all of its paths, with as much as was asked for; scores of pairs are the
// same ones.
func TestRerank(t *testing.T) {
	h := startEncoder(t, "BertForSequenceClassification")
	type reranked struct {
		ID, Model string
		Results   []struct {
			Index    int
			Document *struct{ Text string }
			Score    float64 `json:"relevance_score"`
		}
		Usage struct {
			Total int `json:"total_tokens"`
		}
	}
	ask := func(path, fields string) (a reranked) {
		t.Helper()
		status, text := post(t, h, path, `{"model": "encoder", "query": "the cache", `+fields+`}`)
		if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 {
			t.Fatalf("%s: %d %s", path, status, text)
		}
		return a
	}
	const documents = `"documents": ["a fox", "a page of the cache", {"text": "the wood"}]`
	all := ask("/v1/rerank", documents)
	if len(all.Results) != 3 || all.Usage.Total != 7+10+7 || all.Model != "encoder" || !strings.HasPrefix(all.ID, "rerank-") {
		t.Fatalf("%+v", all)
	}
	texts := []string{"a fox", "a page of the cache", "the wood"}
	for i, r := range all.Results {
		if i > 0 && r.Score > all.Results[i-1].Score || r.Document == nil || r.Document.Text != texts[r.Index] || r.Score <= 0 || r.Score >= 1 {
			t.Errorf("result %d: %+v", i, r)
		}
	}
	for _, path := range []string{"/rerank", "/v2/rerank"} {
		two := ask(path, documents+`, "top_n": 2, "return_documents": false`)
		if len(two.Results) != 2 || two.Results[0].Index != all.Results[0].Index || two.Results[0].Document != nil {
			t.Errorf("%s: %+v", path, two)
		}
	}
	var scored struct {
		Data []struct {
			Index int
			Score float64
		}
	}
	// Float weights give other last bits beside other texts (docs/lore.md, 26).
	for _, path := range []string{"/v1/score", "/score"} {
		status, text := post(t, h, path, `{"text_1": "the cache", "text_2": ["a fox", "a page of the cache", "the wood"]}`)
		if err := json.Unmarshal([]byte(text), &scored); err != nil || status != 200 || len(scored.Data) != 3 {
			t.Fatalf("%s: %d %s", path, status, text)
		}
		for _, r := range all.Results {
			if math.Abs(scored.Data[r.Index].Score-r.Score) > 1e-4 {
				t.Errorf("%s: document %d has %g, reranked %g", path, r.Index, scored.Data[r.Index].Score, r.Score)
			}
		}
	}
	long := `"documents": ["` + strings.Repeat("fox ", 100) + `"]`
	if ask("/rerank", long).Usage.Total != testkit.EncoderContext || ask("/rerank", long+`, "truncate_prompt_tokens": 9`).Usage.Total != 9 {
		t.Error("a long document is not cut to what there is room for")
	}
}

// TestRerankRefusals: what cannot be ranked is refused by name; a model that compares nothing says so.
func TestRerankRefusals(t *testing.T) {
	h := startEncoder(t, "XLMRobertaForSequenceClassification")
	for _, c := range []struct{ path, body, want string }{
		{"/v1/rerank", `{"documents": ["a"]}`, `"param":"query"`},
		{"/v1/rerank", `{"query": "a"}`, `"param":"documents"`},
		{"/v1/rerank", `{"query": "a", "documents": [7]}`, `"param":"documents"`},
		{"/v1/rerank", `{"query": "a", "documents": [null]}`, `"param":"documents"`},
		{"/v1/rerank", `{"query": "a", "documents": ["a"], "top_n": 0}`, `"param":"top_n"`},
		{"/v1/rerank", `{"query": "a", "documents": ["a"], "max_tokens_per_doc": 5}`, `"param":"max_tokens_per_doc"`},
		{"/v1/rerank", `{"query": "a", "documents": ["a"], "truncate_prompt_tokens": 0}`, `"param":"truncate_prompt_tokens"`},
		{"/v1/rerank", `{"query": "` + strings.Repeat("fox ", 60) + `", "documents": ["a"]}`, `the query leaves no room`},
		{"/v1/score", `{"text_2": "a"}`, `"param":"text_1"`},
		{"/v1/score", `{"text_1": "a"}`, `"param":"text_2"`},
		{"/v1/score", `{"text_1": ["a", "b"], "text_2": ["a", "b", "c"]}`, `text_1 has 2 texts and text_2 3`},
		{"/v1/score", `{"text_1": 7, "text_2": "a"}`, `should be strings`},
		{"/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}]}`, `error`},
	} {
		if status, text := post(t, h, c.path, c.body); status != 400 || !strings.Contains(text, c.want) {
			t.Errorf("%s %.80s: %d %s", c.path, c.body, status, text)
		}
	}
	demo, _ := start(t, ridge.Options{}, server.Options{})
	if status, text := post(t, demo, "/v1/rerank", `{"query": "a", "documents": ["b"]}`); status != 400 || !strings.Contains(text, "was not trained to compare") {
		t.Errorf("%d %s", status, text)
	}
}

// TestEncoderEmbeddings: an encoder's embeddings by text and by token ids, as floats and in base64, shortened, and in Ollama's
// API; its capabilities say that it generates no text.
func TestEncoderEmbeddings(t *testing.T) {
	h := startEncoder(t, "BertModel")
	embed := func(path, body string) (vectors [][]float32, text string) {
		t.Helper()
		status, text := post(t, h, path, body)
		var a struct {
			Data       []struct{ Embedding json.RawMessage }
			Embeddings [][]float32
		}
		if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 {
			t.Fatalf("%s %s: %d %s", path, body, status, text)
		}
		for _, d := range a.Data {
			var v []float32
			_ = json.Unmarshal(d.Embedding, &v) // base64 is looked at as text
			vectors = append(vectors, v)
		}
		return append(vectors, a.Embeddings...), text
	}
	same := func(a, b []float32) bool {
		if len(a) != len(b) || len(a) == 0 {
			return false
		}
		for i := range a {
			if math.Abs(float64(a[i]-b[i])) > 1e-3 {
				return false
			}
		}
		return true
	}
	whole, _ := embed("/v1/embeddings", `{"input": ["a fox ran", "the cache"]}`)
	_, tokens := post(t, h, "/tokenize", `{"prompt": "a fox ran"}`)
	var ids struct{ Tokens json.RawMessage }
	if err := json.Unmarshal([]byte(tokens), &ids); err != nil || len(whole) != 2 || len(whole[0]) != 64 {
		t.Fatalf("%d vectors; %s %v", len(whole), tokens, err)
	}
	for _, c := range []struct{ path, body string }{
		{"/v1/embeddings", `{"input": ` + string(ids.Tokens) + `}`},
		{"/v1/embeddings", `{"input": [` + string(ids.Tokens) + `]}`},
		{"/api/embed", `{"input": "a fox ran"}`},
	} {
		if got, text := embed(c.path, c.body); len(got) != 1 || !same(got[0], whole[0]) {
			t.Errorf("%s %s gives another vector: %s", c.path, c.body, text)
		}
	}
	if short, _ := embed("/v1/embeddings", `{"input": "a fox ran", "dimensions": 8}`); len(short[0]) != 8 {
		t.Errorf("%d dimensions", len(short[0]))
	}
	if _, text := embed("/v1/embeddings", `{"input": "a fox ran", "encoding_format": "base64"}`); !strings.Contains(text, `"embedding":"`) {
		t.Error(text)
	}
	if none, _ := embed("/api/embed", `{"model": "encoder", "input": ""}`); len(none) != 0 {
		t.Errorf("nothing has %d embeddings", len(none))
	}
	if _, text := post(t, h, "/api/show", `{"model": "encoder"}`); !strings.Contains(text, `"capabilities":["embedding"]`) || !strings.Contains(text, `"general.architecture":"bert"`) {
		t.Error(text)
	}
}
