package chat

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/chat/jinja"
)

// errNoSystem is what a request with Request.RefuseSystem fails with where the template has no system role.
var errNoSystem = &InputError{errors.New("chat: the model's chat template has no system role; write the instructions into the user's message, or let the server do so (without --refuse-system)")}

// isSystem reports whether a message tells the model how to behave.
func isSystem(m Message) bool { return m.Role == "system" || m.Role == "developer" }

// lacksSystem finds out whether a template has no system role: it prints a user's message, but of one with a system message before it the
// system's text is missing, or the template refuses the two.
func (t *Template) lacksSystem(tmpl *jinja.Template) bool {
	const needle = "probe5e1f"
	printed := func(messages ...Message) bool {
		list := jinja.NewList()
		for _, m := range messages {
			list.Append(m.value(t.forms[tmpl]))
		}
		out, err := tmpl.Render(context.Background(), t.variables(list, true), jinja.Options{})
		return err == nil && strings.Contains(out, needle)
	}
	return printed(Message{Role: "user", Content: needle}) &&
		!printed(Message{Role: "system", Content: needle}, Message{Role: "user", Content: "x"})
}

// foldSystem gives a conversation without system messages: their texts stand before that of the user's message after them; where none
// follows, behind that of the user's message before them, and where there is none either, they are a message of the user's.
func foldSystem(all []Message) []Message {
	if !slices.ContainsFunc(all, isSystem) {
		return all
	}
	var folded []Message
	var system []string
	flush := func() {
		text := strings.Join(system, "\n\n")
		switch n := len(folded); {
		case text == "":
		case n > 0 && folded[n-1].Role == "user":
			folded[n-1] = folded[n-1].with("", text)
		default:
			folded = append(folded, Message{Role: "user", Content: text})
		}
		system = nil
	}
	for _, m := range all {
		switch {
		case isSystem(m):
			if text := m.text(); text != "" {
				system = append(system, text)
			}
			continue
		case m.Role == "user":
			m = m.with(strings.Join(system, "\n\n"), "")
			system = nil
		default:
			flush()
		}
		folded = append(folded, m)
	}
	flush()
	return folded
}

// text is the message's content as one text.
func (m Message) text() string {
	if len(m.Parts) == 0 {
		return m.Content
	}
	texts := make([]string, len(m.Parts))
	for i, p := range m.Parts {
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n")
}

// with is the message with texts before and behind its own, apart from it by an empty line.
func (m Message) with(before, behind string) Message {
	if before != "" {
		before += "\n\n"
	}
	if behind != "" {
		behind = "\n\n" + behind
	}
	if len(m.Parts) == 0 {
		m.Content = before + m.Content + behind
		return m
	}
	m.Parts = slices.Clone(m.Parts)
	m.Parts[0].Text = before + m.Parts[0].Text
	m.Parts[len(m.Parts)-1].Text += behind
	return m
}
