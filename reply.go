package ridge

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/engine/grammar"
)

// Reply says what an answer in a chat has to be. Reasoning, where the model's style has it, may come first in any case.
type Reply struct {
	Content  Language // of what is no call
	Tools    []Tool   // that may be called
	Required bool     // the answer is calls and nothing else
	Single   bool     // one call at most
}

// Tool is a tool as far as its calls are concerned.
type Tool struct {
	Name       string
	Parameters json.RawMessage // a JSON schema of the arguments; nil: it takes none
	Strict     bool            // the arguments satisfy the schema even where a call is the model's own choice
}

// LanguageError is what is wrong with a language: it cannot be read, or cannot be enforced.
type LanguageError struct {
	Tool int // whose parameters it is about; -1: the content
	Err  error
}

// Error implements error.
func (e *LanguageError) Error() string {
	if e.Tool < 0 {
		return e.Err.Error()
	}
	return fmt.Sprintf("the parameters of tool %d: %v", e.Tool, e.Err)
}

// Unwrap gives the error itself.
func (e *LanguageError) Unwrap() error { return e.Err }

// free reports whether nothing has to be enforced.
func (r *Reply) free() bool {
	strict := r.Single && len(r.Tools) > 0
	for _, t := range r.Tools {
		strict = strict || t.Strict
	}
	return r.Content.Any() && !r.Required && !strict
}

// ConstrainReply is Constrain for the answer to a rendered prompt, in the model's own style. What cannot be enforced is
// refused with a *LanguageError.
func (m *Model) ConstrainReply(prompt string, r Reply) (*Constraint, error) {
	if r.free() {
		return nil, nil
	}
	compiler, err := m.grammars()
	if err != nil {
		return nil, err
	}
	w := replyWriter{style: m.Style(), reply: r, specials: compiler.specials}
	w.thinks, w.thought = w.style.StartsInReasoning(prompt), w.style.HasReasoned(prompt)
	if len(r.Tools) > 0 {
		_, asJSON := w.style.Tools.Form()
		_, asElements := w.style.Tools.Elements()
		if !asJSON && !asElements {
			return nil, &LanguageError{Tool: -1, Err: fmt.Errorf("ridge: the chat template of %s shows no way of calling tools that Ridge can enforce; leave them to the model (tool_choice auto, not strict, parallel_tool_calls true)", m.name)}
		}
	}
	source, err := json.Marshal(map[string]any{"style": w.style, "thinks": w.thinks, "thought": w.thought, "content": r.Content.source, "tools": r.Tools, "required": r.Required, "single": r.Single})
	if err != nil {
		return nil, &LanguageError{Tool: -1, Err: err}
	}
	return compiler.constraint("reply\x00"+string(source), w.grammar)
}

// replyWriter makes the grammar of a reply.
type replyWriter struct {
	style           chat.Style
	reply           Reply
	specials        []string // names of special tokens
	thinks, thought bool     // the prompt ends where reasoning begins, or where it is over
}

func (w *replyWriter) grammar() (*grammar.Grammar, error) {
	var content, calls *grammar.Grammar
	var err error
	if !w.reply.Content.Any() {
		if content, err = w.reply.Content.read(written); err != nil {
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
func (w *replyWriter) body(content, calls *grammar.Grammar) (*grammar.Grammar, error) {
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
func (w *replyWriter) thinking(answer *grammar.Grammar) *grammar.Grammar {
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
func (w *replyWriter) harmony(content, calls *grammar.Grammar) *grammar.Grammar {
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
func (w *replyWriter) calls() (*grammar.Grammar, error) {
	if elements, ok := w.style.Tools.Elements(); ok {
		return w.elementCalls(elements)
	}
	form, _ := w.style.Tools.Form() // ConstrainReply has looked whether there is one
	var options []*grammar.Grammar
	for i, t := range w.reply.Tools {
		arguments, err := w.arguments(t, form.Compact)
		if err != nil {
			return nil, &LanguageError{Tool: i, Err: err}
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
func (w *replyWriter) arguments(t Tool, compact bool) (*grammar.Grammar, error) {
	o := grammar.Options{Spaced: !compact, Object: true}
	switch {
	case !t.Strict && !w.reply.Required:
		return grammar.JSONObject(o)
	case t.Parameters == nil:
		return grammar.FromJSONSchema([]byte(`{"maxProperties": 0}`), o)
	}
	return grammar.FromJSONSchema(t.Parameters, o)
}

// text is a text in which the names of special tokens stand for those.
func (w *replyWriter) text(s string) *grammar.Grammar {
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
func (w *replyWriter) free(tag string) *grammar.Grammar {
	for _, special := range w.specials {
		if special == tag {
			return grammar.Free(nil, []string{tag})
		}
	}
	return grammar.Free([]string{tag}, nil)
}
