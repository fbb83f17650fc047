package chat

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Calls written as elements, one for each parameter: Qwen3-Coder, Seed-OSS and GLM. Values stand as they are, so that their
// types must come from elsewhere; the arguments passed on are JSON all the same.

const (
	seedBegin = "<seed:tool_call>"
	seedEnd   = "</seed:tool_call>"
)

// xmlForm is how a style writes such a call:
//
//	Begin  Function name  Key parameter KeyEnd  Value value ValueEnd  …  Close  End
type xmlForm struct {
	begin, function, nameEnds string // nameEnds: any of these characters ends the name
	key, keyEnd               string
	value, valueEnd           string
	close, end                string // close may be ""
}

// xml is the form of a style; nil for the other styles.
func (t ToolStyle) xml() *xmlForm {
	switch t {
	case Coder:
		return &xmlForm{hermesBegin, "<function=", ">", "<parameter=", ">", "", "</parameter>", "</function>", hermesEnd}
	case Seed:
		return &xmlForm{seedBegin, "<function=", ">", "<parameter=", ">", "", "</parameter>", "</function>", seedEnd}
	case GLM:
		return &xmlForm{hermesBegin, "", "<\n", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "", hermesEnd}
	}
	return nil
}

// xmlCall is the call being read.
type xmlCall struct {
	form   *xmlForm
	name   string
	keys   int
	isText bool   // the value is passed on as it comes
	begun  bool   // the value's first byte, which may be a line break of the layout, has come
	kept   string // of the value: the line break that may be the layout's, or all of one that is not known to be a text
}

const nameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/"

// xmlName reads up to the name. What does not look like one is text.
func (p *OutputParser) xmlName(bool) bool {
	f := p.opts.Style.Tools.xml()
	rest := strings.TrimLeft(p.buf, whiteSpace)
	if !strings.HasPrefix(rest, f.function) {
		return !strings.HasPrefix(f.function, rest) && p.notCall()
	}
	rest = rest[len(f.function):]
	at := strings.IndexAny(head(rest), f.nameEnds)
	if at < 0 {
		return len(rest) >= maxHead && p.notCall()
	}
	name := strings.TrimSpace(rest[:at])
	if name == "" || strings.Trim(name, nameBytes) != "" {
		return p.notCall()
	}
	p.buf = strings.TrimPrefix(rest[at:], ">")
	p.xml = xmlCall{form: f, name: name}
	p.beginCall(name)
	p.arguments("{")
	p.state = (*OutputParser).xmlNext
	return true
}

// xmlNext: another parameter, or the end of the call, which anything else is too.
func (p *OutputParser) xmlNext(end bool) bool {
	f := p.xml.form
	p.buf = strings.TrimLeft(p.buf, whiteSpace)
	for _, tag := range []string{f.key, f.close, f.end} {
		switch {
		case tag == "":
		case !strings.HasPrefix(p.buf, tag):
			if strings.HasPrefix(tag, p.buf) {
				p.dropCutOff(end)
				return false
			}
		case tag == f.key:
			return p.xmlKey(end)
		default:
			p.buf = p.buf[len(tag):]
			p.arguments("}")
			if p.state = (*OutputParser).xmlEnd; tag == f.end {
				return p.enter(false, (*OutputParser).plain)
			}
			return true
		}
	}
	p.arguments("}")
	return p.enter(false, (*OutputParser).plain)
}

// xmlKey reads the name of a parameter.
func (p *OutputParser) xmlKey(end bool) bool {
	f := p.xml.form
	rest := p.buf[len(f.key):]
	at := strings.Index(head(rest), f.keyEnd)
	switch {
	case at < 0 && len(rest) < maxHead:
		p.dropCutOff(end)
		return false
	case at < 0:
		p.arguments("}")
		return p.enter(false, (*OutputParser).plain)
	}
	key := strings.TrimSpace(rest[:at])
	p.buf = rest[at+len(f.keyEnd):]
	separator := ""
	if p.xml.keys++; p.xml.keys > 1 {
		separator = ", "
	}
	p.arguments(separator + quoted(key) + ": ")
	p.xml.isText = p.opts.IsText != nil && p.opts.IsText(p.xml.name, key)
	p.xml.begun, p.xml.kept = false, ""
	p.state = (*OutputParser).xmlOpenValue
	return true
}

// xmlOpenValue reads up to the value.
func (p *OutputParser) xmlOpenValue(end bool) bool {
	if p.xml.form.value != "" {
		if _, known := p.awaits(p.xml.form.value, end); !known {
			return false
		}
	}
	if p.xml.isText {
		p.arguments(`"`)
	}
	p.state = (*OutputParser).xmlValue
	return true
}

// xmlValue reads a value. One line break before and one after it are layout.
func (p *OutputParser) xmlValue(end bool) bool {
	x := &p.xml
	text, tag := p.cut(x.form.valueEnd)
	if !x.begun && text != "" {
		x.begun = true
		text = strings.TrimPrefix(text, "\n")
	}
	text = x.kept + text
	x.kept = ""
	if tag != "" {
		text = strings.TrimSuffix(text, "\n")
		if x.isText {
			p.arguments(escaped(text) + `"`)
		} else {
			p.arguments(guessed(text))
		}
		p.state = (*OutputParser).xmlNext
		return true
	}
	if solid := strings.TrimSuffix(text, "\n"); !x.isText {
		x.kept = text
	} else {
		x.kept = text[len(solid):]
		p.arguments(escaped(solid))
	}
	p.dropCutOff(end)
	return false
}

// xmlEnd: the closing tag may be missing.
func (p *OutputParser) xmlEnd(end bool) bool {
	if _, known := p.awaits(p.xml.form.end, end); !known {
		return false
	}
	return p.enter(false, (*OutputParser).plain)
}

// guessed is a value that is not known to be a text as JSON: itself if it is JSON, Python's constants, or else a text.
func guessed(text string) string {
	trimmed := strings.TrimSpace(text)
	switch trimmed {
	case "True", "False":
		return strings.ToLower(trimmed)
	case "None":
		return "null"
	}
	if json.Valid([]byte(trimmed)) {
		return trimmed
	}
	return quoted(text)
}

func quoted(s string) string { return `"` + escaped(s) + `"` }

// escaped is a piece of a text as it stands in JSON. It goes by bytes, since a piece may end within a character.
func escaped(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
