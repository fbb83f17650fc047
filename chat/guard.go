package chat

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ridge-llm/ridge/chat/jinja"
)

// Guard knows the tokens by which a model is steered, so that text in a conversation which spells one out stays text and cannot forge a turn,
// the result of a tool or the end of a document.
type Guard struct {
	special map[string][]string // control tokens of the vocabulary, by their first two bytes
	written map[string][]string // others that the template writes
}

// NewGuard makes a guard. special are the names of control tokens; written are further tokens, which steer the model because its template
// writes them (<tool_response>): in the assistant's own messages these stay tokens.
func NewGuard(special, written []string) *Guard {
	return &Guard{byStart(special), byStart(written)}
}

func byStart(names []string) map[string][]string {
	m := map[string][]string{}
	for _, n := range names {
		if n != "" {
			m[n[:min(2, len(n))]] = append(m[n[:min(2, len(n))]], n)
		}
	}
	for _, list := range m {
		slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	}
	return m
}

// Prompt is a rendered conversation.
type Prompt struct {
	text string // with the mark inside of every control token that the content spells
	mark string // occurs nowhere else; "": there are none
}

// Text is what the template has written.
func (p Prompt) Text() string {
	if p.mark == "" {
		return p.text
	}
	return strings.ReplaceAll(p.text, p.mark, "")
}

// Marked is the text with a mark inside of every control token that is only text, and the mark: "" when there are none. It is for
// tokenizer.Options.Mark.
func (p Prompt) Marked() (text, mark string) { return p.text, p.mark }

// Cut is the first n bytes of Text.
func (p Prompt) Cut(n int) Prompt {
	if p.mark == "" {
		return Prompt{text: p.text[:n]}
	}
	at := 0
	for n > 0 {
		next := strings.Index(p.text[at:], p.mark)
		if next < 0 || next >= n {
			at += n
			break
		}
		at, n = at+next+len(p.mark), n-next
	}
	return Prompt{p.text[:at], p.mark}
}

// marking puts marks into the texts of a conversation.
type marking struct {
	*Guard
	mark      string
	assistant func(name string) bool // which special tokens are marked in the assistant's messages
	others    bool                   // whether tokens are marked in all else
	found     map[string]bool        // tokens that were marked in the assistant's messages
	count     int                    // of marks
}

// vars are the variables of a template with marks in what comes from the request.
func (k *marking) vars(plain *jinja.Map, given []string) *jinja.Map {
	vars := plain.Clone()
	for _, name := range given {
		if v, ok := plain.Get(name); ok && name != "messages" && k.others {
			vars.Set(name, jinja.MapText(v, k.other))
		}
	}
	messages, _ := plain.Get("messages")
	list, ok := messages.(*jinja.List)
	if !ok { // a variable of the request's own has taken its place
		return vars.Set("messages", jinja.MapText(messages, k.other))
	}
	marked := jinja.NewList()
	for _, m := range list.Items() {
		f := k.other
		if message, ok := m.(*jinja.Map); ok && isAssistant(message) {
			f = k.own
		} else if !k.others {
			f = func(s string) string { return s }
		}
		marked.Append(jinja.MapText(m, f))
	}
	return vars.Set("messages", marked)
}

func isAssistant(message *jinja.Map) bool {
	role, _ := message.Get("role")
	return role == "assistant"
}

// own marks a text of the assistant's.
func (k *marking) own(s string) string {
	return k.put(s, func(name string) bool {
		ok := k.assistant(name)
		if ok {
			k.found[name] = true
		}
		return ok
	}, k.special)
}

// other marks a text of anything else.
func (k *marking) other(s string) string {
	return k.put(s, func(string) bool { return true }, k.special, k.written)
}

// put marks a text behind the first character of each of the tokens in it, and of a token's beginning at the text's end, which what comes
// after the text might complete.
func (k *marking) put(s string, wanted func(name string) bool, sets ...map[string][]string) string {
	var b strings.Builder
	done, end := 0, len(strings.TrimRightFunc(s, unicode.IsSpace))
	for i, r := range s {
		if !begins(s[i:], wanted, sets) && !(i < end && isBeginning(s[i:end], wanted, sets)) {
			continue
		}
		first := i + utf8.RuneLen(r)
		b.WriteString(s[done:first])
		b.WriteString(k.mark)
		done = first
		k.count++
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// begins reports whether a text begins with a token that is wanted.
func begins(s string, wanted func(string) bool, sets []map[string][]string) bool {
	for _, set := range sets {
		for _, start := range []string{s[:min(2, len(s))], s[:1]} { // the latter for tokens of one byte
			for _, name := range set[start] {
				if strings.HasPrefix(s, name) && wanted(name) {
					return true
				}
			}
		}
	}
	return false
}

// longestControl is more than the bytes of any control token.
const longestControl = 64

// isBeginning reports whether a text is the beginning of a token that is wanted.
func isBeginning(s string, wanted func(string) bool, sets []map[string][]string) bool {
	if len(s) >= longestControl {
		return false
	}
	for _, set := range sets {
		for start, names := range set {
			if start[0] != s[0] {
				continue
			}
			for _, name := range names {
				if len(s) < len(name) && strings.HasPrefix(name, s) && wanted(name) {
					return true
				}
			}
		}
	}
	return false
}

// marks are characters one of which becomes the mark: letters without case that no tokenizer's normaliser changes and hardly any text has.
const firstMark, lastMark = 0xa000, 0xa48c // Yi syllables

// freeMark is a character that is in none of the variables' texts nor in the template.
func (t *Template) freeMark(vars *jinja.Map) (string, error) {
	used := map[rune]bool{}
	note := func(s string) string {
		for _, r := range s {
			if r >= firstMark && r <= lastMark {
				used[r] = true
			}
		}
		return s
	}
	note(t.source)
	jinja.MapText(vars, note)
	for r := rune(firstMark); r <= lastMark; r++ {
		if !used[r] {
			return string(r), nil
		}
	}
	return "", &InputError{errors.New("chat: the conversation has all Yi syllables, of which one is needed to tell text from control tokens; leave one out")}
}

// Prompt makes the prompt of a conversation in which r.Guard, if there is one, keeps text apart from control tokens. Errors are Render's.
//
// The template renders the conversation with a mark in each control token that the content spells, so that nothing is one that the template has
// not written itself. Where the template looks for a token in the content, as for the end of reasoning in the assistant's messages, the
// assistant's messages keep those tokens: they were its own; in other messages the template does not get to see them.
func (t *Template) Prompt(ctx context.Context, r Request) (Prompt, error) {
	if r.Now.IsZero() {
		r.Now = time.Now() // the same for all renderings
	}
	tmpl, plain, err := t.prepare(r)
	if err != nil {
		return Prompt{}, err
	}
	render := func(vars *jinja.Map) (string, error) { return tmpl.Render(ctx, vars, jinja.Options{Now: r.Now}) }
	if r.Guard == nil {
		text, err := render(plain)
		return Prompt{text: text}, err
	}
	mark, err := t.freeMark(plain)
	if err != nil {
		return Prompt{}, err
	}
	given := append([]string{"tools", "documents"}, slices.Sorted(maps.Keys(r.Extra))...)
	k := &marking{Guard: r.Guard, mark: mark, others: true, assistant: func(string) bool { return true }, found: map[string]bool{}}
	vars := k.vars(plain, given)
	if k.count == 0 {
		text, err := render(plain)
		return Prompt{text: text}, err
	}
	marked := func(vars *jinja.Map) (Prompt, error) {
		text, err := render(vars)
		return Prompt{strings.ReplaceAll(text, inASCII(mark), mark), mark}, err
	}
	p, err := marked(vars)
	if len(k.found) == 0 {
		return p, err
	}
	text, plainErr := render(plain)
	if plainErr != nil || err == nil && p.Text() == text {
		return p, errors.Join(plainErr)
	}
	unseen := map[string]bool{} // tokens in the assistant's messages that the template does not look for
	for _, name := range slices.Sorted(maps.Keys(k.found))[:min(len(k.found), maxTried)] {
		one := &marking{Guard: r.Guard, mark: mark, assistant: func(s string) bool { return s == name }, found: map[string]bool{}}
		p, err := marked(one.vars(plain, given))
		unseen[name] = err == nil && p.Text() == text
	}
	k = &marking{Guard: r.Guard, mark: mark, others: true, assistant: func(s string) bool { return unseen[s] }, found: map[string]bool{}}
	return marked(k.vars(plain, given))
}

// maxTried is how many tokens in the assistant's messages are looked at one by one; more are left as they are.
const maxTried = 16

// inASCII is the mark as JSON has it where all is ASCII.
func inASCII(mark string) string { return fmt.Sprintf(`\u%04x`, []rune(mark)[0]) }
