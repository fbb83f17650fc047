package chat

import "strings"

const (
	mistralBegin  = "[TOOL_CALLS]"
	mistralArgs   = "[ARGS]"
	mistralCallID = "[CALL_ID]"
)

// mistralCalls: a list of objects, or (since 2025) a name and its arguments.
func (p *OutputParser) mistralCalls(end bool) bool {
	p.buf = strings.TrimLeft(p.buf, whiteSpace)
	switch {
	case p.buf == "":
		return false
	case p.buf[0] == '[':
		p.buf = p.buf[1:]
		return p.objectCall(mistralBegin+"[", (*OutputParser).mistralObject)
	}
	p.state = (*OutputParser).mistralName
	return true
}

func (p *OutputParser) mistralObject(bool) bool {
	p.call.scan(p)
	switch {
	case p.call.phase < afterObject:
		return false
	case !p.call.begun:
		return p.notCall()
	}
	p.state = (*OutputParser).mistralNext
	return true
}

// mistralNext: a comma and another object, or the end of the list.
func (p *OutputParser) mistralNext(end bool) bool {
	if found, known := p.awaits(",", end); found {
		return p.objectCall("", (*OutputParser).mistralObject)
	} else if !known {
		return false
	}
	if _, known := p.awaits("]", end); !known {
		return false
	}
	return p.enter(false, (*OutputParser).plain)
}

// mistralName reads name[CALL_ID]id[ARGS]{…} up to the arguments; the markers may be missing.
func (p *OutputParser) mistralName(bool) bool {
	brace := strings.IndexByte(head(p.buf), '{')
	if brace < 0 {
		return len(p.buf) >= maxHead && p.notCall()
	}
	name, _, _ := strings.Cut(p.buf[:brace], mistralArgs)
	name, _, _ = strings.Cut(name, mistralCallID)
	p.beginCall(strings.TrimSpace(name))
	p.buf = p.buf[brace:]
	p.call.value = jsonScanner{}
	p.state = (*OutputParser).mistralArguments
	return true
}

// mistralArguments passes on one JSON value.
func (p *OutputParser) mistralArguments(bool) bool {
	for i := range len(p.buf) {
		if p.call.value.next(p.buf[i]) {
			p.arguments(p.buf[:i+1])
			p.buf = p.buf[i+1:]
			return p.enter(false, (*OutputParser).plain)
		}
	}
	p.arguments(p.buf)
	p.buf = ""
	return false
}
