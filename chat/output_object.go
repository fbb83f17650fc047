package chat

import "strings"

// Calls written as JSON objects: Hermes, Llama 3 and the older Mistral models.

const (
	hermesBegin = "<tool_call>"
	hermesEnd   = "</tool_call>"
	llamaBegin  = "<|python_tag|>"
)

// objectCall starts reading an object; prefix is what it takes to write it as text, in case it is not a call.
func (p *OutputParser) objectCall(prefix string, next state) bool {
	p.call, p.raw, p.state = callScanner{}, prefix, next
	return true
}

// notCall gives what looked like a call back as content.
func (p *OutputParser) notCall() bool {
	raw := p.raw
	p.raw = ""
	p.state = (*OutputParser).plain
	p.skipSpace = false
	p.text(raw)
	return true
}

func (p *OutputParser) hermesCall(bool) bool {
	return p.objectCall(hermesBegin, (*OutputParser).hermesObject)
}

func (p *OutputParser) hermesObject(bool) bool {
	p.call.scan(p)
	switch {
	case p.call.phase < afterObject:
		return false
	case !p.call.begun:
		return p.notCall()
	}
	p.state = (*OutputParser).hermesClose
	return true
}

// hermesClose: the closing tag may be missing; after something that was not JSON anything may precede it.
func (p *OutputParser) hermesClose(end bool) bool {
	if p.call.phase == broken {
		if _, tag := p.cut(hermesEnd); tag == "" {
			return false
		}
		return p.enter(false, (*OutputParser).plain)
	}
	if _, known := p.awaits(hermesEnd, end); !known {
		return false
	}
	return p.enter(false, (*OutputParser).plain)
}

// llamaCall: the answer, or what follows <|python_tag|>, may be a call; after one, "; " may lead to another.
func (p *OutputParser) llamaCall(end bool) bool {
	rest := strings.TrimLeft(p.buf, whiteSpace)
	switch {
	case strings.HasPrefix(rest, llamaBegin):
		p.raw, p.buf = llamaBegin, rest[len(llamaBegin):]
	case strings.HasPrefix(rest, "{"):
		prefix := p.raw + p.buf[:len(p.buf)-len(rest)]
		p.buf = rest
		return p.objectCall(prefix, (*OutputParser).llamaObject)
	case !end && strings.HasPrefix(llamaBegin, rest):
		return false
	default:
		p.raw, p.state = "", (*OutputParser).plain
	}
	return true
}

func (p *OutputParser) llamaObject(bool) bool {
	p.call.scan(p)
	switch {
	case p.call.phase < afterObject:
		return false
	case !p.call.begun:
		return p.notCall()
	}
	p.state = (*OutputParser).llamaNext
	return true
}

func (p *OutputParser) llamaNext(end bool) bool {
	if _, known := p.awaits(";", end); !known {
		return false
	}
	return p.enter(false, (*OutputParser).llamaCall)
}
