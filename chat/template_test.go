package chat

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/chat/jinja"
)

func mustNew(t *testing.T, s Sources) *Template {
	t.Helper()
	tmpl, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

func render(t *testing.T, s Sources, r Request) string {
	t.Helper()
	out, err := mustNew(t, s).Render(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMessageKeys prints messages as JSON: the keys and their order are those of API clients.
func TestMessageKeys(t *testing.T) {
	messages := []Message{
		{Role: "user", Content: "Hi <you> & \"é\""},
		{Role: "assistant", ReasoningContent: "hm", ToolCalls: []ToolCall{{ID: "c1", Name: "f", Arguments: `{"b": 1, "a": [1.0, null]}`}}},
		{Role: "assistant", ToolCalls: []ToolCall{{Name: "f", Arguments: `{broken`}}},
		{Role: "tool", Name: "f", ToolCallID: "c1", Content: "21"},
	}
	want := `{"role": "user", "content": "Hi <you> & \"é\""}
{"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"b": 1, "a": [1.0, null]}}}]}
{"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{broken"}}]}
{"role": "tool", "name": "f", "tool_call_id": "c1", "content": "21"}
`
	got := render(t, Sources{Name: "t", Default: "{% for m in messages %}{{ m | tojson }}\n{% endfor %}"}, Request{Messages: messages})
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestVariables: what apply_chat_template gives a template besides the messages.
func TestVariables(t *testing.T) {
	s := Sources{
		Name:    "t",
		Default: "{{ bos_token }}|{{ tools is none }}|{{ documents is none }}|{{ add_generation_prompt }}|{{ enable_thinking }}|{{ strftime_now('%d %b %Y') }}",
		Tokens:  map[string]string{"bos_token": "<s>"},
	}
	r := Request{
		AddGenerationPrompt: true,
		Extra:               map[string]json.RawMessage{"enable_thinking": json.RawMessage("false")},
		Now:                 time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
	}
	if got, want := render(t, s, r), "<s>|True|True|True|False|20 Nov 2026"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s.Default = "{{ tools | tojson }}{{ documents[0].title }}"
	r.Tools = []json.RawMessage{json.RawMessage(`{"type":"function","function":{"name":"z","description":"d","parameters":{"type":"object"}}}`)}
	r.Documents = []json.RawMessage{json.RawMessage(`{"title": "T"}`)}
	if got, want := render(t, s, r), `[{"type": "function", "function": {"name": "z", "description": "d", "parameters": {"type": "object"}}}]T`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestContentForms: content reaches a template in a form that it prints, whichever form the client sent.
func TestContentForms(t *testing.T) {
	text := "{% for m in messages %}<{{ m.content }}>{% endfor %}"
	concat := "{% for m in messages %}{{ '<' + m.content + '>' }}{% endfor %}"
	parts := "{% for m in messages %}<{% for p in m.content %}{{ p.text }};{% endfor %}>{% endfor %}"
	both := "{% for m in messages %}<{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }};{% endfor %}{% endif %}>{% endfor %}"
	messages := []Message{{Role: "user", Content: "a"}, {Role: "user", Parts: []Part{{"text", "b"}, {"text", "c"}}}}
	for source, want := range map[string]string{text: "<a><b\nc>", concat: "<a><b\nc>", parts: "<a;><b;c;>", both: "<a><b;c;>"} {
		if got := render(t, Sources{Name: "t", Default: source}, Request{Messages: messages}); got != want {
			t.Errorf("%s: got %q, want %q", source, got, want)
		}
	}
	_, err := mustNew(t, Sources{Name: "t", Default: text}).Render(context.Background(), Request{Messages: []Message{{Parts: []Part{{Type: "image_url"}}}}})
	if want := `chat: a message has content of type "image_url"; only text is supported (message 0)`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestErrors(t *testing.T) {
	if _, err := New(Sources{Name: "m.gguf"}); !errors.Is(err, ErrNoTemplate) || !strings.Contains(err.Error(), "m.gguf") {
		t.Errorf("no template: got %v", err)
	}
	if _, err := New(Sources{Name: "m", Default: "{% if %}"}); err == nil || err.Error() != "chat: m:1: expected an expression, found '%}'" {
		t.Errorf("a broken template: got %v", err)
	}
	tmpl := mustNew(t, Sources{Name: "m", Default: "\n{{ raise_exception('System role not supported') }}"})
	_, err := tmpl.Render(context.Background(), Request{})
	var e *jinja.Error
	if !errors.As(err, &e) || e.Kind != jinja.Raised || e.Message != "System role not supported" || e.Line != 2 {
		t.Errorf("raise_exception: got %v", err)
	}
	for what, r := range map[string]Request{
		"tool 0":                       {Tools: []json.RawMessage{json.RawMessage("{")}},
		"document 0":                   {Documents: []json.RawMessage{json.RawMessage("]")}},
		`template variable "thinking"`: {Extra: map[string]json.RawMessage{"thinking": json.RawMessage("yes")}},
	} {
		if _, err := tmpl.Render(context.Background(), r); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want it to name %s", err, what)
		}
	}
}

func TestReadDir(t *testing.T) {
	s, err := ReadDir("testdata/model")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tokens) != 2 || s.Tokens["bos_token"] != "<s>" || s.Tokens["eos_token"] != "</s>" {
		t.Errorf("tokens: %v", s.Tokens)
	}
	messages := []Message{{Role: "user", Content: "Hi"}}
	if got, want := render(t, s, Request{Messages: messages}), "<s>[user] Hi</s>"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if s, err = ReadDir("testdata/named"); err != nil {
		t.Fatal(err)
	}
	if got := render(t, s, Request{}); got != "plain" {
		t.Errorf("without tools: got %q", got)
	}
	if got := render(t, s, Request{Tools: []json.RawMessage{json.RawMessage("1")}}); got != "[1]" {
		t.Errorf("with tools: got %q", got)
	}
	dir := t.TempDir()
	if s, err = ReadDir(dir); err != nil || s.Default != "" {
		t.Errorf("an empty directory: %v, %v", s, err)
	}
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("chat_template.json", `{"chat_template": "from json"}`)
	if s, err = ReadDir(dir); err != nil || s.Default != "from json" {
		t.Errorf("chat_template.json: %v, %v", s, err)
	}
	write("chat_template.jinja", "from jinja")
	if s, err = ReadDir(dir); err != nil || s.Default != "from jinja" || filepath.Base(s.Name) != "chat_template.jinja" {
		t.Errorf("chat_template.jinja: %v, %v", s, err)
	}
	write("tokenizer_config.json", `{"chat_template": 5}`)
	if _, err = ReadDir(dir); err == nil || !strings.Contains(err.Error(), "tokenizer_config.json: chat_template must be") {
		t.Errorf("a broken tokenizer_config.json: %v", err)
	}
}

func TestRenderJSON(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	got, err := RenderJSON(context.Background(), "t", "{{ a }}{{ strftime_now('%H') }}{{ tools is defined }}", []byte(`{"a": 1.0}`), now)
	if err != nil || got != "1.012False" {
		t.Errorf("got %q, %v", got, err)
	}
	for source, context_ := range map[string]string{"{{": "{}", "x": "[]", "y": "{"} {
		if got, err := RenderJSON(context.Background(), "t", source, []byte(context_), now); err == nil {
			t.Errorf("%s with %s: rendered %q", source, context_, got)
		}
	}
}

// TestReferenceConversation renders real templates from Go messages and demands upstream's prompt.
func TestReferenceConversation(t *testing.T) {
	const dir = "../../shared/reference/templates"
	data, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Skip("the reference templates are not here; the other tests cover messages without them")
	}
	var expected map[string]map[string]struct {
		OK  bool
		Out string
	}
	if err := json.Unmarshal(data, &expected); err != nil {
		t.Fatal(err)
	}
	data, err = os.ReadFile(filepath.Join(dir, "conversations.json"))
	if err != nil {
		t.Fatal(err)
	}
	var conversations map[string]struct{ Tools []json.RawMessage }
	if err := json.Unmarshal(data, &conversations); err != nil {
		t.Fatal(err)
	}
	request := Request{
		Messages: []Message{
			{Role: "system", Content: "You are a helpful assistant."},
			{Role: "user", Content: "Weather in Zürich and Oslo?"},
			{Role: "assistant", ToolCalls: []ToolCall{{ID: "call_abcd", Name: "get_weather", Arguments: `{"location": "Zürich", "days": 2, "metric": true}`}}},
			{Role: "tool", Name: "get_weather", ToolCallID: "call_abcd", Content: `{"temp": 21.5}`},
		},
		Tools:               conversations["tools"].Tools,
		AddGenerationPrompt: true,
		Now:                 time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
	}
	for _, file := range []string{"Qwen-Qwen3-0.6B.jinja", "meta-llama-Llama-3.1-8B-Instruct.jinja", "openai-gpt-oss-120b.jinja", "NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja", "GLM-4.6.jinja"} {
		source, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		s := Sources{Name: file, Default: string(source), Tokens: map[string]string{"bos_token": "<s>", "eos_token": "</s>"}}
		if got, want := render(t, s, request), expected[file]["tools"].Out; got != want {
			t.Errorf("%s: got\n%q\nwant\n%q", file, got, want)
		}
	}
}
