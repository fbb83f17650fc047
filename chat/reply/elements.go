package reply

import (
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/engine/grammar"
	"github.com/ridge-llm/ridge/engine/grammar/language"
)

// elementCalls is one call written as elements, or several.
func (w *writer) elementCalls(f chat.ElementForm) (*grammar.Grammar, error) {
	var options []*grammar.Grammar
	for i, t := range w.reply.Tools {
		arguments, err := w.elements(f, t)
		if err != nil {
			return nil, &language.Error{Tool: i, Err: err}
		}
		options = append(options, grammar.Seq(grammar.Text(t.Name), w.layout(f.Named), arguments))
	}
	calls := grammar.Seq(w.layout(f.Open), grammar.Choice(options...), w.layout(f.Close))
	if !w.reply.Single {
		calls = grammar.List(calls, w.layout(f.Between))
	}
	return calls, nil
}

// elements is what a tool takes, an element each. Of a schema that is not to be enforced nothing is: any elements may come.
func (w *writer) elements(f chat.ElementForm, t Tool) (*grammar.Grammar, error) {
	end := f.ValueEnd
	if slices.Contains(w.specials, end) {
		end = "" // special tokens are in no text
	}
	element := func(name, value *grammar.Grammar) *grammar.Grammar {
		return grammar.Seq(w.layout(f.Key), name, w.layout(f.Value), value, w.layout(f.End))
	}
	if !t.Strict && !w.reply.Required {
		name, err := grammar.FromRegex(`[A-Za-z0-9_.$-]{1,64}`)
		return grammar.Optional(grammar.List(element(name, grammar.Without(end)), grammar.Text(""))), err
	}
	if t.Parameters == nil {
		return grammar.Text(""), nil
	}
	o := language.Written
	o.Meter, o.Relax = w.meter, !t.Strict
	list, err := grammar.Elements(t.Parameters, o, end)
	if err != nil {
		return nil, err
	}
	var all []*grammar.Grammar
	for _, e := range list {
		e.Value.Unenforced = ofTool(t, e.Value.Unenforced)
		x := element(grammar.Text(e.Name), e.Value)
		if !e.Required {
			x = grammar.Optional(x)
		}
		all = append(all, x)
	}
	return grammar.Seq(all...), nil
}

// layout is text in which "\n?" is a line break that may be missing.
func (w *writer) layout(s string) *grammar.Grammar {
	var parts []*grammar.Grammar
	for i, part := range strings.Split(s, "\n?") {
		if i > 0 {
			parts = append(parts, grammar.Optional(grammar.Text("\n")))
		}
		parts = append(parts, w.text(part))
	}
	return grammar.Seq(parts...)
}
