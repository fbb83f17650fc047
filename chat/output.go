package chat

import "strings"

// Delta is the next piece of an answer: exactly one of its fields is set.
type Delta struct {
	Content   string
	Reasoning string
	Call      *CallDelta
}

// CallDelta is a piece of a tool call. The first of a call has its name; pieces of the arguments follow, which joined
// are the JSON that the model wrote.
type CallDelta struct {
	Index     int    // 0 for the answer's first call, 1 for the next, …
	Name      string // only in the first delta of a call
	Arguments string
}

// OutputOptions say how a model's output is to be read.
type OutputOptions struct {
	Style Style
	// Tools are the names of the tools offered. Without any, text that looks like a call is text.
	Tools []string
	// IsText reports whether a parameter of a tool is a text, for styles whose calls do not show it: there 1 may be "1". nil:
	// what is JSON is JSON, and the rest texts.
	IsText func(tool, parameter string) bool
	// InReasoning: the prompt ends where the model is already thinking; see Style.StartsInReasoning.
	InReasoning bool
}

// OutputParser splits a model's output, as it comes, into content, reasoning and tool calls. What it gives does not
// depend on where the text is cut into pieces, but for the cuts between deltas of one kind. The text must have the
// model's special tokens written out.
type OutputParser struct {
	opts   OutputOptions
	state  state
	buf    string // not parsed yet
	deltas []Delta

	inReasoning bool
	skipSpace   bool   // the next white space is layout
	space       string // white space that is layout if a call or a change between reasoning and content follows
	calls       int
	call        callScanner
	xml         xmlCall
	raw         string // what was taken for a call, while it may still be text
}

// state consumes what it can of p.buf, and reports whether it made progress. At the end of the output there is
// nothing to wait for.
type state func(p *OutputParser, end bool) bool

// NewOutputParser makes a parser for one answer.
func NewOutputParser(o OutputOptions) *OutputParser {
	p := &OutputParser{opts: o, state: (*OutputParser).plain}
	switch {
	case o.Style.Tools == Harmony:
		p.state = (*OutputParser).harmonyHeader
	case o.InReasoning:
		p.state = (*OutputParser).reasoning
		p.inReasoning, p.skipSpace = true, true
	case o.Style.Tools == Llama3 && len(o.Tools) > 0:
		p.state = (*OutputParser).llamaCall
	}
	return p
}

// Feed takes the next piece of output and returns the deltas that are certain.
func (p *OutputParser) Feed(text string) []Delta {
	p.buf += text
	return p.run(false)
}

// Finish returns what was held back, at the end of the output.
func (p *OutputParser) Finish() []Delta {
	p.run(true)
	p.text(p.raw + p.buf)
	p.raw, p.buf = "", ""
	p.emitText(p.space)
	p.space = ""
	return p.take()
}

func (p *OutputParser) run(end bool) []Delta {
	for p.state(p, end) {
	}
	if end {
		return nil
	}
	return p.take()
}

func (p *OutputParser) take() []Delta {
	d := p.deltas
	p.deltas = nil
	return d
}

// text passes on content or reasoning, holding back white space at its end.
func (p *OutputParser) text(s string) {
	if p.skipSpace {
		s = strings.TrimLeft(s, whiteSpace)
	}
	if s == "" {
		return
	}
	p.skipSpace = false
	s = p.space + s
	solid := strings.TrimRight(s, whiteSpace)
	p.space = s[len(solid):]
	p.emitText(solid)
}

const whiteSpace = " \t\r\n"

func (p *OutputParser) emitText(s string) {
	switch {
	case s == "":
	case p.inReasoning:
		p.deltas = append(p.deltas, Delta{Reasoning: s})
	default:
		p.deltas = append(p.deltas, Delta{Content: s})
	}
}

// enter goes to the next state and drops white space around a call or a change between reasoning and content.
func (p *OutputParser) enter(inReasoning bool, next state) bool {
	p.inReasoning, p.space, p.skipSpace, p.raw, p.state = inReasoning, "", true, "", next
	return true
}

func (p *OutputParser) beginCall(name string) {
	p.enter(false, p.state)
	p.deltas = append(p.deltas, Delta{Call: &CallDelta{Index: p.calls, Name: name}})
	p.calls++
}

// arguments passes on a piece of the current call's arguments.
func (p *OutputParser) arguments(s string) {
	if s != "" {
		p.deltas = append(p.deltas, Delta{Call: &CallDelta{Index: p.calls - 1, Arguments: s}})
	}
}

// cut takes p.buf up to the first of tags. When there is none, tag is "", and text is all that cannot be part of one.
func (p *OutputParser) cut(tags ...string) (text, tag string) {
	at := -1
	for _, t := range tags {
		if i := strings.Index(p.buf, t); t != "" && i >= 0 && (at < 0 || i < at) {
			at, tag = i, t
		}
	}
	if at < 0 {
		at = len(p.buf) - partial(p.buf, tags)
	}
	text = p.buf[:at]
	p.buf = p.buf[at+len(tag):]
	return text, tag
}

// partial measures the longest end of s that may be the beginning of a tag.
func partial(s string, tags []string) int {
	longest := 0
	for _, t := range tags {
		for n := min(len(t)-1, len(s)); n > longest; n-- {
			if strings.HasPrefix(t, s[len(s)-n:]) {
				longest = n
			}
		}
	}
	return longest
}

// plain reads content up to reasoning or a call.
func (p *OutputParser) plain(bool) bool {
	tags := []string{p.opts.Style.ThinkOpen}
	var open string
	if len(p.opts.Tools) > 0 {
		open = p.opts.Style.Tools.opening()
		tags = append(tags, open)
	}
	text, tag := p.cut(tags...)
	p.text(text)
	switch tag {
	case "":
		return false
	case open:
		p.raw = open
		p.state = p.opts.Style.Tools.call()
		return true
	}
	return p.enter(true, (*OutputParser).reasoning)
}

// reasoning reads what the model thinks, up to its end.
func (p *OutputParser) reasoning(bool) bool {
	text, tag := p.cut(p.opts.Style.ThinkClose)
	p.text(text)
	if tag == "" {
		return false
	}
	next := state((*OutputParser).plain)
	if p.opts.Style.Tools == Llama3 && len(p.opts.Tools) > 0 {
		next = (*OutputParser).llamaCall
	}
	return p.enter(false, next)
}

// maxHead is how many bytes a header or the name of a tool may take: what is longer without its end tag
// is none, and is not held back for it.
const maxHead = 1024

// head is the part of s in which the end of a header must lie.
func head(s string) string { return s[:min(len(s), maxHead)] }

// dropCutOff drops, at the end of the output, the beginning of a tag behind a call, which is not text.
func (p *OutputParser) dropCutOff(end bool) {
	if end {
		p.buf = ""
	}
}

// awaits drops white space, and then reports whether the output goes on with tag. It is not known as long as what there
// is may be the beginning of the tag.
func (p *OutputParser) awaits(tag string, end bool) (found, known bool) {
	p.buf = strings.TrimLeft(p.buf, whiteSpace)
	if strings.HasPrefix(p.buf, tag) {
		p.buf = p.buf[len(tag):]
		return true, true
	}
	possible := strings.HasPrefix(tag, p.buf)
	if possible {
		p.dropCutOff(end)
	}
	return false, end || !possible
}
