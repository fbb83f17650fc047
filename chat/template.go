package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ridge-llm/ridge/chat/jinja"
)

// ErrNoTemplate is what New fails with when a model brings no chat template. There is no default: a prompt in the wrong
// form makes a model worse without a sign of it. Callers can offer plain completion, or a template by name.
var ErrNoTemplate = errors.New("the model has no chat template; give one in a file (--chat-template FILE), or complete plain text instead of chatting")

// Template is a model's compiled chat template. It does not change: any number of goroutines may use it.
type Template struct {
	main    *jinja.Template
	toolUse *jinja.Template // used instead when tools are given; may be nil
	tokens  map[string]string
	source  string
	forms   map[*jinja.Template]contentForm
	// systemless are the templates without a system role.
	systemless map[*jinja.Template]bool
}

// New compiles a model's templates. It fails with ErrNoTemplate when there are none.
func New(s Sources) (*Template, error) {
	if s.Default == "" {
		s.Default = s.ToolUse
	}
	if s.Default == "" {
		return nil, fmt.Errorf("chat: %s: %w", s.Name, ErrNoTemplate)
	}
	t := &Template{source: s.Default, tokens: maps.Clone(s.Tokens), forms: map[*jinja.Template]contentForm{}, systemless: map[*jinja.Template]bool{}}
	var err error
	if t.main, err = jinja.Parse(s.Name, s.Default); err != nil {
		return nil, err
	}
	t.learn(t.main)
	if s.ToolUse != "" {
		if t.toolUse, err = jinja.Parse(s.Name+" (tool_use)", s.ToolUse); err != nil {
			return nil, err
		}
		t.learn(t.toolUse)
	}
	return t, nil
}

// learn finds out what a template can be given.
func (t *Template) learn(tmpl *jinja.Template) {
	t.forms[tmpl] = t.probe(tmpl)
	t.systemless[tmpl] = t.lacksSystem(tmpl)
}

// Source is the text of the default template: what the styles of a model's output can be told from.
func (t *Template) Source() string { return t.source }

// ShowsTools reports whether the template has anything to do with tools.
func (t *Template) ShowsTools() bool { return t.toolUse != nil || strings.Contains(t.source, "tools") }

// Request is what a prompt is made of.
type Request struct {
	Messages            []Message
	Tools               []json.RawMessage          // as API clients send them: {"type": "function", "function": {…}}
	Documents           []json.RawMessage          // for retrieval: {"title": …, "text": …}
	AddGenerationPrompt bool                       // end where the assistant's answer begins
	Extra               map[string]json.RawMessage // more variables, such as enable_thinking
	Guard               *Guard                     // keeps control tokens that content spells from being tokens; nil: they are
	RefuseSystem        bool                       // where the template has no system role, system messages are an error, not part of the user's
	Now                 time.Time                  // for templates that print the date; zero stands for the present
}

// Bytes is how much text and JSON the request has, which is what rendering it takes time for.
func (r *Request) Bytes() int {
	n := 0
	for i := range r.Messages {
		m := &r.Messages[i]
		n += len(m.Content) + len(m.ReasoningContent)
		for _, p := range m.Parts {
			n += len(p.Text)
		}
		for _, c := range m.ToolCalls {
			n += len(c.Arguments)
		}
	}
	for _, list := range [][]json.RawMessage{r.Tools, r.Documents} {
		for _, text := range list {
			n += len(text)
		}
	}
	for _, text := range r.Extra {
		n += len(text)
	}
	return n
}

// InputError is what is wrong with a part of a Request: it is not JSON, nests too deep, or is content of a type that is not supported.
type InputError struct{ err error }

func (e *InputError) Error() string { return e.err.Error() }

// Unwrap gives the error itself.
func (e *InputError) Unwrap() error { return e.err }

// Render makes the prompt. What is wrong with the request is an *InputError. When the template refuses the conversation, the error is a
// *jinja.Error of kind jinja.Raised whose Message is the template's own sentence.
func (t *Template) Render(ctx context.Context, r Request) (string, error) {
	p, err := t.Prompt(ctx, r)
	return p.Text(), err
}

// prepare chooses the template of a request and makes its variables.
func (t *Template) prepare(r Request) (tmpl *jinja.Template, vars *jinja.Map, err error) {
	tmpl = t.main
	if len(r.Tools) > 0 && t.toolUse != nil {
		tmpl = t.toolUse
	}
	for i, m := range r.Messages {
		if err := m.checkParts(); err != nil {
			return nil, nil, &InputError{fmt.Errorf("%w (message %d)", err, i)}
		}
	}
	conversation := r.Messages
	if t.systemless[tmpl] {
		if r.RefuseSystem && slices.ContainsFunc(conversation, isSystem) {
			return nil, nil, errNoSystem
		}
		conversation = foldSystem(conversation)
	}
	messages := jinja.NewList()
	for _, m := range conversation {
		messages.Append(m.value(t.forms[tmpl]))
	}
	tools, err := decodeAll("tool", r.Tools)
	if err != nil {
		return nil, nil, err
	}
	documents, err := decodeAll("document", r.Documents)
	if err != nil {
		return nil, nil, err
	}
	vars = t.variables(messages, r.AddGenerationPrompt).Set("tools", tools).Set("documents", documents)
	for name, data := range r.Extra {
		v, err := jinja.DecodeJSON(data)
		if err != nil {
			return nil, nil, &InputError{fmt.Errorf("%w (template variable %q)", err, name)}
		}
		vars.Set(name, v)
	}
	return tmpl, vars, nil
}

// variables are those that every rendering has.
func (t *Template) variables(messages *jinja.List, addGenerationPrompt bool) *jinja.Map {
	vars := jinja.NewMap().Set("messages", messages).Set("tools", nil).Set("documents", nil)
	vars.Set("add_generation_prompt", addGenerationPrompt)
	for name, token := range t.tokens {
		vars.Set(name, token)
	}
	return vars
}

// decodeAll gives a list, or None when there is nothing, as apply_chat_template has it.
func decodeAll(what string, list []json.RawMessage) (any, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := jinja.NewList()
	for i, data := range list {
		v, err := jinja.DecodeJSON(data)
		if err != nil {
			return nil, &InputError{fmt.Errorf("%w (%s %d)", err, what, i)}
		}
		out.Append(v)
	}
	return out, nil
}

// probe finds out how a template takes content by rendering one user message in each form: what it means to print
// appears as it is, and not inside the repr or the JSON of a list.
func (t *Template) probe(tmpl *jinja.Template) contentForm {
	const needle = "probe5e1f"
	printed := func(content any) string {
		message := jinja.NewMap().Set("role", "user").Set("content", content)
		out, err := tmpl.Render(context.Background(), t.variables(jinja.NewList(message), true), jinja.Options{})
		if err != nil {
			return ""
		}
		return out
	}
	list := printed(jinja.NewList(jinja.NewMap().Set("type", "text").Set("text", needle)))
	asData := slices.ContainsFunc([]string{"'", `"`}, func(q string) bool { return strings.Contains(list, q+needle+q) })
	return contentForm{
		text:  strings.Contains(printed(needle), needle),
		parts: strings.Contains(list, needle) && !asData,
	}
}

// RenderJSON renders a template's text with a context given as a JSON object, and adds nothing to it.
func RenderJSON(ctx context.Context, name, source string, contextJSON []byte, now time.Time) (string, error) {
	tmpl, err := jinja.Parse(name, source)
	if err != nil {
		return "", err
	}
	v, err := jinja.DecodeJSON(contextJSON)
	if err != nil {
		return "", err
	}
	vars, ok := v.(*jinja.Map)
	if !ok {
		return "", errors.New("chat: the render context must be a JSON object")
	}
	return tmpl.Render(ctx, vars, jinja.Options{Now: now})
}
