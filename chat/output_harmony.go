package chat

import "strings"

// The harmony format of gpt-oss (github.com/openai/harmony, docs/format.md): the output is messages, each of which has a
// header with a channel and perhaps a recipient. Channel analysis is reasoning; a message to a recipient is a call;
// the rest is content.

const (
	harmonyStart   = "<|start|>"
	harmonyChannel = "<|channel|>"
	harmonyMessage = "<|message|>"
	harmonyEnd     = "<|end|>"
	harmonyCall    = "<|call|>"
	harmonyReturn  = "<|return|>"
)

// harmonyHeader reads up to the message. Output without a header is content.
func (p *OutputParser) harmonyHeader(end bool) bool {
	if is, known := isHarmonyHeader(strings.TrimLeft(p.buf, whiteSpace)); known && !is {
		return p.enter(false, (*OutputParser).harmonyText)
	}
	header, _, found := strings.Cut(head(p.buf), harmonyMessage)
	switch {
	case !found && len(p.buf) >= maxHead:
		return p.enter(false, (*OutputParser).harmonyText)
	case !found:
		if end { // cut off in a header, which is not shown
			p.buf = ""
		}
		return false
	}
	p.buf = p.buf[len(header)+len(harmonyMessage):]
	_, channel, _ := strings.Cut(header, harmonyChannel)
	if fields := strings.FieldsFunc(channel, func(c rune) bool { return c == ' ' || c == '<' }); len(fields) > 0 {
		channel = fields[0]
	}
	if _, to, found := strings.Cut(header, "to="); found {
		if i := strings.IndexAny(to, " <\n"); i >= 0 {
			to = to[:i]
		}
		p.beginCall(strings.TrimPrefix(to, "functions."))
		p.state = (*OutputParser).harmonyArguments
		return true
	}
	return p.enter(channel == "analysis", (*OutputParser).harmonyText)
}

// isHarmonyHeader reports whether a header begins s, as soon as that is known.
func isHarmonyHeader(s string) (is, known bool) {
	for _, begin := range []string{harmonyStart, harmonyChannel, harmonyMessage, "to="} {
		if strings.HasPrefix(s, begin) {
			return true, true
		}
		is = is || strings.HasPrefix(begin, s)
	}
	return is, !is
}

// harmonyText reads content or reasoning to the end of the message.
func (p *OutputParser) harmonyText(bool) bool {
	text, tag := p.cut(harmonyEnd, harmonyReturn, harmonyCall, harmonyStart)
	p.text(text)
	return p.endMessage(tag)
}

// harmonyArguments reads the arguments of a call.
func (p *OutputParser) harmonyArguments(end bool) bool {
	text, tag := p.cut(harmonyCall, harmonyEnd, harmonyReturn, harmonyStart)
	p.arguments(text)
	if tag == "" {
		p.dropCutOff(end)
	}
	return p.endMessage(tag)
}

func (p *OutputParser) endMessage(tag string) bool {
	switch tag {
	case "":
		return false
	case harmonyStart:
		p.buf = harmonyStart + p.buf
	}
	return p.enter(false, (*OutputParser).harmonyHeader)
}
