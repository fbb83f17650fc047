package sdktest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"
)

// withKey adds the key to requests, which Ollama's client cannot.
type withKey struct{}

func (withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+key)
	return http.DefaultTransport.RoundTrip(r)
}

func ollama(t *testing.T) *api.Client {
	base, err := url.Parse(start(t))
	if err != nil {
		t.Fatal(err)
	}
	return api.NewClient(base, &http.Client{Transport: withKey{}})
}

var options = map[string]any{"temperature": 0, "num_predict": 12}

func TestOllamaChat(t *testing.T) {
	c, ctx := ollama(t), context.Background()
	ask := func(stream bool) (text string, pieces int, last api.ChatResponse) {
		err := c.Chat(ctx, &api.ChatRequest{Model: model, Stream: &stream, Options: options, Messages: []api.Message{{Role: "user", Content: fox}}}, func(r api.ChatResponse) error {
			text, last = text+r.Message.Content, r
			pieces++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return text, pieces, last
	}
	streamed, pieces, last := ask(true)
	whole, one, _ := ask(false)
	if streamed != whole || whole == "" || pieces < 3 || one != 1 || !last.Done || last.DoneReason != "length" || last.EvalCount != 12 || last.PromptEvalCount == 0 || last.EvalDuration <= 0 {
		t.Errorf("%q in %d pieces, %q in %d, last %+v", streamed, pieces, whole, one, last)
	}
	stream := false
	var h hero
	format, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	err = c.Chat(ctx, &api.ChatRequest{Model: model, Stream: &stream, Format: format, Options: map[string]any{"temperature": 0}, Messages: []api.Message{{Role: "user", Content: "Name a hero."}}}, func(r api.ChatResponse) error {
		return json.Unmarshal([]byte(r.Message.Content), &h)
	})
	if err != nil || h.Brave == nil {
		t.Errorf("with a schema: %v %+v", err, h)
	}
}

func TestOllamaTheRest(t *testing.T) {
	c, ctx := ollama(t), context.Background()
	text := ""
	err := c.Generate(ctx, &api.GenerateRequest{Model: model, Prompt: fox, Options: options}, func(r api.GenerateResponse) error { text += r.Response; return nil })
	if err != nil || text == "" {
		t.Errorf("generate: %v", err)
	}
	e, err := c.Embed(ctx, &api.EmbedRequest{Model: model, Input: []string{"a", "b"}})
	if err != nil || len(e.Embeddings) != 2 || e.PromptEvalCount == 0 {
		t.Errorf("embed: %v %+v", err, e)
	}
	old, err := c.Embeddings(ctx, &api.EmbeddingRequest{Model: model, Prompt: "a"})
	if err != nil || len(old.Embedding) != len(e.Embeddings[0]) {
		t.Errorf("embeddings: %v", err)
	}
	list, err := c.List(ctx)
	if err != nil || len(list.Models) != 1 || list.Models[0].Name != model || len(list.Models[0].Digest) < 12 || list.Models[0].Details.Family != "llama" {
		t.Errorf("list: %v %+v", err, list)
	}
	running, err := c.ListRunning(ctx)
	if err != nil || len(running.Models) != 1 || len(running.Models[0].Digest) < 12 || running.Models[0].ContextLength != 2048 {
		t.Errorf("ps: %v %+v", err, running)
	}
	shown, err := c.Show(ctx, &api.ShowRequest{Model: model})
	if err != nil || !slices.Contains(shown.Capabilities, "completion") || shown.ModelInfo["llama.context_length"] != 2048. || shown.Template == "" {
		t.Errorf("show: %v %+v", err, shown)
	}
	if err := c.Heartbeat(ctx); err != nil {
		t.Errorf("heartbeat: %v", err)
	}
	err = c.Generate(ctx, &api.GenerateRequest{Model: model}, func(r api.GenerateResponse) error {
		if !r.Done || r.DoneReason != "load" {
			t.Errorf("loading: %+v", r)
		}
		return nil
	})
	if err != nil {
		t.Errorf("loading: %v", err)
	}
	if v, err := c.Version(ctx); err != nil {
		t.Errorf("version: %v %q", err, v)
	}
	var status api.StatusError
	err = c.Chat(ctx, &api.ChatRequest{Model: "llama9"}, func(api.ChatResponse) error { return nil })
	if !errors.As(err, &status) || status.StatusCode != 404 || !strings.Contains(status.ErrorMessage, "no model") {
		t.Errorf("%v", err)
	}
}
