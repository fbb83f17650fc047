package chat

import (
	"encoding/json"
	"slices"
	"strings"
)

// jsonScanner follows a JSON text, list or object byte by byte, just far enough to know where it ends.
type jsonScanner struct {
	depth    int
	inString bool
	escaped  bool
}

// next takes a byte and reports whether the value ends with it.
func (j *jsonScanner) next(c byte) (ends bool) {
	switch {
	case j.escaped:
		j.escaped = false
	case j.inString && c == '\\':
		j.escaped = true
	case c == '"':
		j.inString = !j.inString
		return !j.inString && j.depth == 0
	case j.inString:
	case c == '{' || c == '[':
		j.depth++
	case c == '}' || c == ']':
		j.depth--
		return j.depth == 0
	}
	return false
}

// callScanner reads a call written as a JSON object with a name and arguments (or parameters), as the text comes.
type callScanner struct {
	phase  scanPhase
	value  jsonScanner
	text   strings.Builder // of the key or value being read, as far as it has not been passed on
	key    string
	keys   int
	quoted bool   // the value is a text
	begun  bool   // the name is known and the call has been passed on
	args   string // read before the name
	seen   bool   // there were arguments
}

type scanPhase uint8

const (
	beforeObject scanPhase = iota
	beforeKey
	inKey
	afterKey
	beforeValue
	inValue
	afterValue
	afterObject
	broken // not a call, or not JSON
)

// scan consumes p.buf as far as it belongs to the object. It passes the call on as soon as its name is known; what it
// consumed before that is kept in p.raw, in case this is not a call.
func (c *callScanner) scan(p *OutputParser) {
	i := 0
	for ; i < len(p.buf) && c.phase < afterObject; i++ {
		c.next(p, p.buf[i])
	}
	if !c.begun {
		p.raw += p.buf[:i]
	} else if (c.phase == inValue || c.phase == broken) && c.isArguments() && !c.quoted {
		p.arguments(c.text.String())
		c.text.Reset()
	}
	p.buf = p.buf[i:]
}

func (c *callScanner) isArguments() bool { return c.key == "arguments" || c.key == "parameters" }

func (c *callScanner) next(p *OutputParser, b byte) {
	if c.phase != inKey && c.phase != inValue && strings.IndexByte(whiteSpace, b) >= 0 {
		return
	}
	if c.phase == inValue && c.value == (jsonScanner{}) && (b == ',' || b == '}') {
		c.endValue(p) // of a number, true, false or null
	}
	wants := func(want byte, then scanPhase) {
		if c.phase = then; b != want {
			c.phase = broken
		}
	}
	switch c.phase {
	case beforeObject:
		wants('{', beforeKey)
	case beforeKey:
		wants('"', inKey)
		c.value = jsonScanner{inString: true}
		c.text.Reset()
	case inKey:
		if c.value.next(b) {
			c.endKey()
		} else {
			c.text.WriteByte(b)
		}
	case afterKey:
		wants(':', beforeValue)
	case beforeValue:
		c.phase, c.value, c.quoted = inValue, jsonScanner{}, b == '"'
		c.text.Reset()
		fallthrough
	case inValue:
		ends := c.value.next(b)
		if c.value.depth < 0 {
			c.phase = broken
			return
		}
		c.text.WriteByte(b)
		if ends {
			c.endValue(p)
		}
	case afterValue:
		if b == '}' {
			c.endObject(p)
		} else {
			wants(',', beforeKey)
		}
	}
}

// endKey: an object that does not begin as calls do is not a call.
func (c *callScanner) endKey() {
	c.key, c.phase = c.text.String(), afterKey
	c.text.Reset()
	if c.keys == 0 && !slices.Contains([]string{"name", "type", "id", "arguments", "parameters"}, c.key) {
		c.phase = broken
	}
	c.keys++
}

func (c *callScanner) endValue(p *OutputParser) {
	c.phase = afterValue
	text := c.text.String()
	c.text.Reset()
	if c.quoted && json.Unmarshal([]byte(text), &text) != nil {
		c.phase = broken
		return
	}
	switch {
	case c.isArguments():
		c.seen = true
		if c.begun {
			p.arguments(text)
		} else {
			c.args = text
		}
	case c.key == "name" && c.quoted && !c.begun:
		c.begin(p, text)
	}
}

func (c *callScanner) begin(p *OutputParser, name string) {
	if !p.offers(name) {
		c.phase = broken
		return
	}
	c.begun, p.raw = true, ""
	p.beginCall(name)
	p.arguments(c.args)
}

func (c *callScanner) endObject(p *OutputParser) {
	c.phase = afterObject
	switch {
	case !c.begun:
		c.phase = broken
	case !c.seen:
		p.arguments("{}")
	}
}

// offers reports whether a call of that name may be one. Where calls are marked, they are believed whatever the name.
func (p *OutputParser) offers(name string) bool {
	return p.opts.Style.Tools != Llama3 || slices.Contains(p.opts.Tools, name)
}
