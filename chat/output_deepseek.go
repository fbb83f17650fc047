package chat

import "strings"

const (
	deepSeekBegin     = "<｜tool▁calls▁begin｜>"
	deepSeekEnd       = "<｜tool▁calls▁end｜>"
	deepSeekCallBegin = "<｜tool▁call▁begin｜>"
	deepSeekSep       = "<｜tool▁sep｜>"
	deepSeekCallEnd   = "<｜tool▁call▁end｜>"
	deepSeekFence     = "```json\n"
)

// deepSeekCalls is between calls. What stands there is layout, but before the first it may turn out to be text.
func (p *OutputParser) deepSeekCalls(end bool) bool {
	text, tag := p.cut(deepSeekCallBegin, deepSeekEnd)
	if p.raw != "" {
		p.raw += text
	} else if tag == "" {
		p.dropCutOff(end)
	}
	switch tag {
	case deepSeekCallBegin:
		p.raw += tag
		p.state = (*OutputParser).deepSeekName
		return true
	case deepSeekEnd:
		return p.enter(false, (*OutputParser).plain)
	}
	return false
}

// deepSeekName reads "name<sep>", or, of models before V3.1, "function<sep>name" and a line that opens a code block.
func (p *OutputParser) deepSeekName(bool) bool {
	name, _, found := strings.Cut(head(p.buf), deepSeekSep)
	if !found {
		return len(p.buf) >= maxHead && p.notCall()
	}
	rest := p.buf[len(name)+len(deepSeekSep):]
	if name = strings.TrimSpace(name); name == "function" {
		line, _, found := strings.Cut(head(rest), "\n")
		if !found {
			return len(rest) >= maxHead && p.notCall()
		}
		rest = rest[len(line)+1:]
		if len(rest) < len(deepSeekFence) && strings.HasPrefix(deepSeekFence, rest) {
			return false
		}
		name, rest = strings.TrimSpace(line), strings.TrimPrefix(rest, deepSeekFence)
	}
	p.beginCall(name)
	p.buf, p.state = rest, (*OutputParser).deepSeekArguments
	return true
}

func (p *OutputParser) deepSeekArguments(end bool) bool {
	args, tag := p.cut("\n```"+deepSeekCallEnd, "\n```\n"+deepSeekCallEnd, deepSeekCallEnd)
	p.arguments(args)
	if tag == "" {
		p.dropCutOff(end)
		return false
	}
	p.state = (*OutputParser).deepSeekCalls
	return true
}
