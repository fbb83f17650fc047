// Package reply makes the grammar of all that a model may write in answer to a prompt: reasoning, content and calls of tools, in
// the style of its chat template.
package reply

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/engine/grammar"
	"github.com/ridge-llm/ridge/engine/grammar/language"
)

// Reply says what an answer in a chat has to be. Reasoning, where the model's style has it, may come first in any case.
type Reply struct {
	Content  language.Language // of what is no call
	Tools    []Tool            // that may be called
	Required bool              // the answer is calls and nothing else
	Single   bool              // one call at most
	Owner    string            // what is compiled is not shared with other owners
}

// Tool is a tool as far as its calls are concerned.
type Tool struct {
	Name       string
	Parameters json.RawMessage // a JSON schema of the arguments; nil: it takes none
	Strict     bool            // the arguments satisfy the schema even where a call is the model's own choice
}

// Free reports whether nothing has to be enforced.
func (r Reply) Free() bool {
	strict := r.Single && len(r.Tools) > 0
	for _, t := range r.Tools {
		strict = strict || t.Strict
	}
	return r.Content.Any() && !r.Required && !strict
}

// Language is the language of the answer to a rendered prompt, in a model's own style. It is asked for only where something
// has to be enforced (not Free). specials is the names of the model's special tokens, model its name for errors. What
// cannot be enforced is refused with a *language.Error, here or when it is compiled.
func (r Reply) Language(style chat.Style, prompt string, specials []string, model string) (language.Language, error) {
	w := writer{style: style, reply: r, specials: specials}
	w.thinks, w.thought = style.StartsInReasoning(prompt), style.HasReasoned(prompt)
	if len(r.Tools) > 0 {
		_, asJSON := style.Tools.Form()
		_, asElements := style.Tools.Elements()
		if !asJSON && !asElements {
			return language.Language{}, &language.Error{Tool: -1, Err: fmt.Errorf("ridge: the chat template of %s shows no way of calling tools that Ridge can enforce; leave them to the model (tool_choice auto, not strict, parallel_tool_calls true)", model)}
		}
	}
	source, err := json.Marshal(map[string]any{"style": style, "thinks": w.thinks, "thought": w.thought, "content": r.Content.Source(), "tools": r.Tools, "required": r.Required, "single": r.Single})
	if err != nil {
		return language.Language{}, &language.Error{Tool: -1, Err: err}
	}
	return language.New("reply\x00"+string(source), w.grammar), nil
}

// writer makes the grammar of a reply.
type writer struct {
	style           chat.Style
	reply           Reply
	specials        []string // names of special tokens
	meter           *grammar.Meter
	thinks, thought bool // the prompt ends where reasoning begins, or where it is over
}

func (w *writer) grammar(m *grammar.Meter) (*grammar.Grammar, error) {
	w.meter = m
	var content, calls *grammar.Grammar
	var err error
	if !w.reply.Content.Any() {
		if content, err = w.reply.Content.Grammar(m); err != nil {
			return nil, err
		}
	}
	if len(w.reply.Tools) > 0 {
		if calls, err = w.calls(); err != nil {
			return nil, err
		}
	}
	if w.style.Tools == chat.Harmony {
		return w.harmony(content, calls), nil
	}
	body, err := w.body(content, calls)
	if err != nil {
		return nil, err
	}
	return w.thinking(body), nil
}

// body is the answer behind the reasoning.
func (w *writer) body(content, calls *grammar.Grammar) (*grammar.Grammar, error) {
	switch {
	case calls == nil:
		return content, nil
	case w.reply.Required:
		return calls, nil
	case content != nil:
		return grammar.Choice(content, calls), nil
	case w.style.Tools.Trigger() == "": // a text that begins as calls do is one
		text, err := grammar.FromRegex(`([^{\s][\s\S]*)?`)
		return grammar.Choice(calls, text), err
	}
	return grammar.Seq(w.free(w.style.Tools.Trigger()), grammar.Optional(calls)), nil
}

// thinking puts reasoning before an answer, as far as the prompt leaves it to come.
func (w *writer) thinking(answer *grammar.Grammar) *grammar.Grammar {
	if w.style.ThinkClose == "" || w.thought {
		return answer
	}
	thought := grammar.Seq(w.free(w.style.ThinkClose), w.text(w.style.ThinkClose), grammar.Space(4))
	if !w.thinks {
		thought = grammar.Optional(grammar.Seq(grammar.Space(4), w.text(w.style.ThinkOpen), thought))
	}
	return grammar.Seq(thought, answer)
}

// harmony is thoughts and preambles, and then a final message or a call.
func (w *writer) harmony(content, calls *grammar.Grammar) *grammar.Grammar {
	message := func(header string) *grammar.Grammar {
		return grammar.Seq(w.text(header), grammar.AnyText(), w.text(chat.HarmonyNext))
	}
	before := grammar.Optional(grammar.List(grammar.Choice(message(chat.HarmonyThought), message(chat.HarmonyPreamble)), grammar.Text("")))
	var ends []*grammar.Grammar
	if calls != nil {
		ends = append(ends, calls)
	}
	switch {
	case w.reply.Required:
	case content != nil:
		ends = append(ends, grammar.Seq(grammar.Choice(w.text(chat.HarmonyFinal), w.text(chat.HarmonyFinalJSON)), content))
	default:
		ends = append(ends, grammar.Seq(w.text(chat.HarmonyFinal), grammar.AnyText()))
	}
	return grammar.Seq(before, grammar.Choice(ends...))
}

// calls is one call of a tool, or several.
func (w *writer) calls() (*grammar.Grammar, error) {
	if elements, ok := w.style.Tools.Elements(); ok {
		return w.elementCalls(elements)
	}
	form, _ := w.style.Tools.Form() // Language has checked that there is one
	var options []*grammar.Grammar
	for i, t := range w.reply.Tools {
		arguments, err := w.arguments(t, form.Compact)
		if err != nil {
			return nil, &language.Error{Tool: i, Err: err}
		}
		options = append(options, grammar.Seq(grammar.Text(t.Name), w.text(form.Middle), arguments))
	}
	calls := grammar.Seq(w.text(form.Open), grammar.Choice(options...), w.text(form.Close))
	if !w.reply.Single && !form.Single {
		calls = grammar.List(calls, w.text(form.Between))
	}
	return grammar.Seq(w.text(form.Begin), calls, w.text(form.End)), nil
}

// arguments is what a tool takes. A schema that is not to be enforced may have what cannot be.
func (w *writer) arguments(t Tool, compact bool) (*grammar.Grammar, error) {
	o := grammar.Options{Spaced: !compact, Object: true, Meter: w.meter}
	switch {
	case !t.Strict && !w.reply.Required:
		return grammar.JSONObject(o)
	case t.Parameters == nil:
		return grammar.FromJSONSchema([]byte(`{"maxProperties": 0}`), o)
	}
	o.Relax = !t.Strict
	g, err := grammar.FromJSONSchema(t.Parameters, o)
	if err == nil {
		g.Unenforced = ofTool(t, g.Unenforced)
	}
	return g, err
}

// ofTool is places in a tool's schema with its name.
func ofTool(t Tool, places []string) (all []string) {
	for _, p := range places {
		all = append(all, t.Name+p)
	}
	return all
}

// text is a text in which the names of special tokens stand for those.
func (w *writer) text(s string) *grammar.Grammar {
	var parts []*grammar.Grammar
	for s != "" {
		at, name := len(s), ""
		for _, special := range w.specials {
			if i := strings.Index(s, special); i >= 0 && (i < at || i == at && len(special) > len(name)) {
				at, name = i, special
			}
		}
		if at > 0 {
			parts = append(parts, grammar.Text(s[:at]))
		}
		if name != "" {
			parts = append(parts, grammar.Special(name))
		}
		s = s[at+len(name):]
	}
	return grammar.Seq(parts...)
}

// free is any text in which the tag does not come.
func (w *writer) free(tag string) *grammar.Grammar {
	for _, special := range w.specials {
		if special == tag {
			return grammar.Free(nil, []string{tag})
		}
	}
	return grammar.Free([]string{tag}, nil)
}
