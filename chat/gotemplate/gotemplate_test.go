package gotemplate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"text/template"

	"github.com/ridge-llm/ridge/chat"
)

// The values that Ollama gives a template (github.com/ollama/ollama/template), of which this test's reference is made: Go's own text/template.
type (
	message struct {
		Role, Content, Thinking string
		ToolCalls               []call
	}
	call struct {
		Function struct {
			Name      string
			Arguments arguments
		}
	}
	arguments map[string]any
	tool      json.RawMessage
)

func (a arguments) String() string { return marshal(a) }

func (t tool) String() string {
	var b bytes.Buffer
	if err := json.Compact(&b, t); err != nil {
		panic(err)
	}
	return b.String()
}

func marshal(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

var referenceFunctions = template.FuncMap{"json": marshal}

// reference renders a conversation as Ollama does.
func reference(t *testing.T, source string, messages []message, given []tool) string {
	t.Helper()
	tmpl, err := template.New("").Option("missingkey=zero").Funcs(referenceFunctions).Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	var system []string
	for _, m := range messages {
		if m.Role == "system" {
			system = append(system, m.Content)
		}
	}
	var b strings.Builder
	if strings.Contains(source, ".Messages") {
		if err := tmpl.Execute(&b, map[string]any{"System": strings.Join(system, "\n\n"), "Messages": messages, "Tools": given, "Response": ""}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	var turn struct{ System, Prompt, Response string }
	execute := func(last bool) {
		const mark = "\x00"
		if last {
			turn.Response = mark
		}
		var one strings.Builder
		if err := tmpl.Execute(&one, turn); err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(one.String(), mark)
		b.WriteString(text)
		turn.System, turn.Prompt, turn.Response = "", "", ""
	}
	for _, m := range messages {
		switch {
		case m.Role == "system" && (turn.Prompt != "" || turn.Response != ""), m.Role == "user" && turn.Response != "":
			execute(false)
		}
		switch m.Role {
		case "system":
			turn.System = m.Content
		case "user":
			turn.Prompt = m.Content
		case "assistant":
			turn.Response = m.Content
		}
	}
	execute(true)
	return b.String()
}

// templates are those of families of models, in the forms that Modelfiles have them.
var templates = map[string]string{
	"chatml": "{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ end }}{{ if .Prompt }}<|im_start|>user\n{{ .Prompt }}<|im_end|>\n{{ end }}<|im_start|>assistant\n{{ .Response }}<|im_end|>\n",
	"llama2": "[INST] {{ if .System }}<<SYS>>{{ .System }}<</SYS>>\n\n{{ end }}{{ .Prompt }} [/INST] {{ .Response }}</s>",
	"alpaca": "{{- if .System }}\n{{ .System }}\n{{- end }}\n\n### Instruction:\n{{ .Prompt }}\n\n### Response:\n{{ .Response }}\n",
	"gemma":  "<start_of_turn>user\n{{ with .System }}{{ . }} {{ else }}{{/* none */}}{{ end }}{{ .Prompt }}<end_of_turn>\n<start_of_turn>model\n{{ .Response }}<end_of_turn>\n",
	"with":   "{{ with .System }}<S>{{ . }}<U>{{ $.Prompt }}<A>{{ $.Response }}{{ else }}<U>{{ .Prompt }}<A>{{ .Response }}{{ end }};",
	"quotes": "{{ if .System }}'\\{{ .System }}\"{% raw %}\t{{ end }}{{ .Prompt }}{# {{ .Response }}",
	"if":     "{{ if and .System (ne .Prompt \"b\") }}S{{ .System }}{{ else if or .Prompt .Response }}P{{ else }}none{{ end }}{{ .Prompt }}:{{ .Response }};",
	"messages": `{{- if or .System .Tools }}<|system|>
{{ .System }}
{{- if .Tools }}

# Tools
{{- range .Tools }}
{{ . }}
{{- end }}
{{- end }}<|end|>
{{ end }}
{{- range $i, $_ := .Messages }}
{{- $last := eq (len (slice $.Messages $i)) 1 }}
{{- if eq .Role "user" }}<|user|>
{{ .Content }}<|end|>
{{ else if eq .Role "assistant" }}<|assistant|>
{{- if .Content }}{{ .Content }}
{{- else if .ToolCalls }}{{ range .ToolCalls }}{"name": "{{ .Function.Name }}", "parameters": {{ .Function.Arguments }}}{{ end }}
{{- end }}{{ if not $last }}<|end|>
{{ end }}
{{- else if eq .Role "tool" "ipython" }}<|tool|>{{ .Content | json }}<|end|>
{{ end }}
{{- if and (ne .Role "assistant") $last }}<|assistant|>
{{ end }}
{{- end }}`,
	"variables": `{{- $n := 0 }}{{ range $m := .Messages }}{{ if eq $m.Role "user" }}{{ $n = len $m.Content }}{{ end }}{{ if gt (len $.Messages) 2 }}+{{ end }}{{ with $m.Content }}[{{ . }}]{{ end }}{{ end }}{{ $n }}{{ (index .Messages 0).Role }}`,
}

// TestAgainstGo: conversations are rendered as by Go's text/template with the values that Ollama gives it.
func TestAgainstGo(t *testing.T) {
	var f call
	f.Function.Name, f.Function.Arguments = "weather", arguments{"city": "Köln", "days": 2}
	weather := tool(`{"type":"function","function":{"name":"weather","description":"tells the weather","parameters":{"type":"object"}}}`)
	conversations := [][]message{
		{{Role: "user", Content: "Hi"}},
		{{Role: "system", Content: "Be <b>kind</b>."}, {Role: "user", Content: "Hi {{ there }} {% you %}"}},
		{{Role: "user", Content: "Hi"}, {Role: "assistant", Content: "Hello"}, {Role: "user", Content: "Who are you?"}},
		{{Role: "system", Content: "S"}, {Role: "user", Content: "a"}, {Role: "assistant", Content: "b"}, {Role: "user", Content: "x"}, {Role: "assistant", Content: "d"}, {Role: "user", Content: "e"}},
		{{Role: "user", Content: "a"}, {Role: "system", Content: "S"}, {Role: "user", Content: "b"}},
		{{Role: "user", Content: "Rain?"}, {Role: "assistant", ToolCalls: []call{f}}, {Role: "tool", Content: "No \"rain\"."}},
	}
	for name, source := range templates {
		jinja, err := Jinja(source)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		tmpl, err := chat.New(chat.Sources{Name: name, Default: jinja, Tokens: map[string]string{"bos_token": "<s>"}})
		if err != nil {
			t.Errorf("%s: %v in %s", name, err, jinja)
			continue
		}
		for i, conversation := range conversations {
			if calls := i == len(conversations)-1; calls && !strings.Contains(source, "ToolCalls") {
				continue
			}
			var given []tool
			r := chat.Request{AddGenerationPrompt: true}
			if i == len(conversations)-1 {
				given = []tool{weather}
				r.Tools = []json.RawMessage{json.RawMessage(weather)}
			}
			for _, m := range conversation {
				x := chat.Message{Role: m.Role, Content: m.Content}
				for _, c := range m.ToolCalls {
					x.ToolCalls = append(x.ToolCalls, chat.ToolCall{Name: c.Function.Name, Arguments: c.Function.Arguments.String()})
				}
				r.Messages = append(r.Messages, x)
			}
			want := reference(t, source, conversation, given)
			if got, err := tmpl.Render(context.Background(), r); err != nil || got != want {
				t.Errorf("%s, conversation %d: %v\ngot  %q\nwant %q\nJinja %s", name, i, err, got, want, jinja)
			}
		}
	}
}

// TestBeginning: the token that texts begin with is written where the tokenizer would add it.
func TestBeginning(t *testing.T) {
	jinja, err := Jinja(templates["chatml"])
	if err != nil {
		t.Fatal(err)
	}
	for tokens, want := range map[string]bool{"bos_token": false, "bos_token add_bos_token": true} {
		all := map[string]string{}
		for _, name := range strings.Fields(tokens) {
			all[name] = "<s>"
		}
		tmpl, err := chat.New(chat.Sources{Name: "t", Default: jinja, Tokens: all})
		if err != nil {
			t.Fatal(err)
		}
		got, err := tmpl.Render(context.Background(), chat.Request{Messages: []chat.Message{{Role: "user", Content: "Hi"}}})
		if err != nil || strings.HasPrefix(got, "<s>") != want {
			t.Errorf("%s: %q, %v", tokens, got, err)
		}
	}
}

// TestRefused: what is not done is refused with the place, and Jinja stays as it is.
func TestRefused(t *testing.T) {
	for _, source := range []string{
		"{{ .Nothing }}", "{{ define \"x\" }}{{ end }}{{ .Prompt }}", "{{ template \"x\" }}", "{{ . }}", "{{ $ }}", "{{ .Prompt", "{{ call .Prompt }}", "{{ printf \"%s\" .Prompt }}",
		"{{ not }}", "{{ .Prompt.Foo }}", "{{ .Prompt 3 }}", "{{ eq 1 }}", "{{ range .Messages }}{{ .Foo }}{{ end }}",
	} {
		if jinja, err := Jinja(source); err == nil {
			t.Errorf("%s is %s", source, jinja)
		}
	}
	for _, source := range []string{"", "{% for m in messages %}{{ m.content }}{% endfor %}"} {
		if jinja, err := Jinja(source); err != nil || jinja != source {
			t.Errorf("%q is %q, %v", source, jinja, err)
		}
	}
	if _, err := Jinja("a\n{{ .Foo }}"); err == nil || !strings.Contains(fmt.Sprint(err), ".Foo") {
		t.Error(err)
	}
}

// TestLength: what is written is not much longer than what was read, however calls lie in one another.
func TestLength(t *testing.T) {
	source := ".System"
	for range 200 {
		source = "(eq " + source + " true false)"
	}
	source = "{{ if " + source + " }}x{{ end }}{{ range .Messages }}{{ .Content }}{{ end }}"
	out, err := Jinja(source)
	if err != nil {
		t.Fatal(err)
	}
	if len(out) > 10*len(source) {
		t.Errorf("%d bytes are made of %d", len(out), len(source))
	}
}

// TestNested: however deep conditions lie in one another, an answer comes, and the process goes on.
func TestNested(t *testing.T) {
	for _, n := range []int{10_000, 2_000_000} {
		source := strings.Repeat("{{if 1}}", n) + "x" + strings.Repeat("{{end}}", n)
		if _, err := Jinja(source); (err != nil) != (len(source) > maxSource) {
			t.Errorf("%d conditions in one another, %d bytes: %v", n, len(source), err)
		}
	}
}

// TestLinear: pipes, fields and calls in one another take time that grows with the template's length, not with its square.
func TestLinear(t *testing.T) {
	for name, source := range map[string]string{
		"pipes":   "{{ if 1" + strings.Repeat("|not", 30_000) + " }}{{ end }}{{ range .Messages }}{{ .Content }}{{ end }}",
		"fields":  "{{ range .Messages }}{{ .ID" + strings.Repeat(".ID", 40_000) + " }}{{ end }}",
		"unknown": "{{ range .Messages }}{{ .ID" + strings.Repeat(".IX", 40_000) + " }}{{ end }}",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Jinja(source)
		runtime.ReadMemStats(&after)
		if err == nil || len(err.Error()) > 1000 {
			t.Errorf("%s: %.100v", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 512<<20 {
			t.Errorf("%s: %d bytes of memory for a template of %d", name, n, len(source))
		}
	}
}
