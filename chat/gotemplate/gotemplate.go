// Package gotemplate turns chat templates in the language of Ollama's Modelfiles, which is Go's text/template with a few functions, into Jinja's. What cannot be said there is refused.
//
// A template that has .Messages is given the whole conversation. One without is one turn: .System, .Prompt and .Response; it is repeated for each, the last up to .Response.
package gotemplate

import (
	"errors"
	"fmt"
	"strings"
	"text/template/parse"
	"unicode/utf8"
)

// functions are those that a template may call, for the parser.
var functions = map[string]any{
	"and": true, "or": true, "not": true, "eq": true, "ne": true, "lt": true, "le": true, "gt": true, "ge": true,
	"len": true, "index": true, "slice": true, "json": true, "print": true, "currentDate": true,
}

// maxSource is the most bytes of a template. What lies in one another in it is read recursively, on the stack.
const maxSource = 128 << 10

// maxCopied is the most bytes that the expressions of a template may be copied for what lies around them: a template of the most bytes has room for calls 64 deep all over.
const maxCopied = 64 * maxSource

// Jinja is a template in Jinja. One that is Jinja already stays as it is, and so does an empty one.
func Jinja(source string) (string, error) {
	if strings.TrimSpace(source) == "" {
		return source, nil
	}
	if len(source) > maxSource {
		return "", fmt.Errorf("it has %d bytes; up to %d are read", len(source), maxSource)
	}
	if !utf8.ValidString(source) {
		return "", errors.New("it is not valid UTF-8")
	}
	trees, err := parse.Parse("template", source, "{{", "}}", functions)
	if strings.Contains(source, "{%") && (err != nil || !strings.Contains(source, "{{")) {
		return source, nil
	}
	if err != nil {
		return "", errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	if len(trees) != 1 {
		return "", errors.New("it defines templates of its own, which is not done")
	}
	root := trees["template"].Root
	if !strings.Contains(source, ".Messages") {
		return turns(root)
	}
	w := &writer{messages: true}
	w.list(root)
	return beginning + collectSystem + w.out.String(), w.err
}

// beginning writes the token that texts begin with: templates in Go's language leave it to the tokenizer.
const beginning = "{%- if add_bos_token is defined -%}{{ bos_token }}{%- endif -%}"

// collectSystem collects the texts of system messages, as .System is; v has the template's variables.
const collectSystem = "{%- set v = namespace(System='') -%}" +
	"{%- for m in messages if m.role == 'system' -%}{%- set v.System = v.System + ('\\n\\n' if v.System else '') + m.content -%}{%- endfor -%}"

// collectTurns divides a conversation into turns, all but the last into v.turns: a system message, a prompt and a response, of which some may be "".
const collectTurns = "{%- set v = namespace(System='', Prompt='', Response='', turns=[]) -%}" +
	"{%- for m in messages -%}" +
	"{%- if m.role != 'assistant' and (v.Response or (m.role == 'system' and v.Prompt)) -%}" +
	"{%- set v.turns = v.turns + [[v.System, v.Prompt, v.Response]] -%}{%- set v.System = '' -%}{%- set v.Prompt = '' -%}{%- set v.Response = '' -%}" +
	"{%- endif -%}" +
	"{%- if m.role == 'system' -%}{%- set v.System = v.System + ('\\n\\n' if v.System else '') + m.content -%}" +
	"{%- elif m.role == 'assistant' -%}{%- set v.Response = v.Response + ('\\n\\n' if v.Response else '') + m.content -%}" +
	"{%- else -%}{%- set v.Prompt = v.Prompt + ('\\n\\n' if v.Prompt else '') + m.content -%}{%- endif -%}" +
	"{%- endfor -%}" +
	"{%- set v.turns = v.turns + [[v.System, v.Prompt, v.Response]] -%}{%- set v.last = v.turns[-1] -%}{%- set v.turns = v.turns[:-1] -%}"

// takeTurn has v be a turn of a loop, and takeLast the last.
const (
	takeTurn = "{%- set v.System = t[0] -%}{%- set v.Prompt = t[1] -%}{%- set v.Response = t[2] -%}"
	takeLast = "{%- set v.System = v.last[0] -%}{%- set v.Prompt = v.last[1] -%}{%- set v.Response = v.last[2] -%}"
)

// turns is the template of a conversation for that of a turn.
func turns(root *parse.ListNode) (string, error) {
	whole, last := &writer{}, &writer{upToResponse: true}
	whole.list(root)
	last.list(root)
	if err := errors.Join(whole.err, last.err); err != nil {
		return "", err
	}
	if !whole.response {
		whole.out.WriteString("{{ v.Response }}") // where it stands if nothing says so
	}
	return beginning + collectTurns + "{%- for t in v.turns -%}" + takeTurn + whole.out.String() + "{%- endfor -%}" + takeLast + last.out.String(), nil
}
