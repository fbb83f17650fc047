package jinja

import (
	"fmt"
	"strings"
)

// parser turns tokens into nodes by recursive descent, with upstream's grammar.
type parser struct {
	tokens  []token
	pos     int
	nesting int
	ends    []string // the tags that would close the bodies being parsed, outermost first
}

func (p *parser) cur() token { return p.tokens[p.pos] }

// look is the token after the current one.
func (p *parser) look() token { return p.tokens[min(p.pos+1, len(p.tokens)-1)] }

// next moves on and gives the token left behind.
func (p *parser) next() token {
	t := p.tokens[p.pos]
	if p.pos < len(p.tokens)-1 {
		p.pos++
	}
	return t
}

func (p *parser) isName(name string) bool { return p.cur().is(tokName, name) }
func (p *parser) isOp(op string) bool     { return p.cur().is(tokOperator, op) }

func (p *parser) skipName(name string) bool { return p.skipIf(p.isName(name)) }
func (p *parser) skipOp(op string) bool     { return p.skipIf(p.isOp(op)) }

func (p *parser) skipIf(found bool) bool {
	if found {
		p.next()
	}
	return found
}

func (p *parser) fail(line int, format string, a ...any) error {
	return &Error{Kind: Syntax, Line: line, Message: fmt.Sprintf(format, a...)}
}

func (p *parser) unexpected(wanted string) error {
	return p.fail(p.cur().line, "expected %s, found %s", wanted, p.cur())
}

func (p *parser) expect(kind tokenKind) (token, error) {
	if p.cur().kind != kind {
		wanted := token{kind: kind}.String()
		if kind == tokName {
			wanted = "a name"
		}
		return token{}, p.unexpected(wanted)
	}
	return p.next(), nil
}

func (p *parser) expectOp(op string) error {
	if !p.skipOp(op) {
		return p.unexpected("'" + op + "'")
	}
	return nil
}

func (p *parser) expectName(name string) error {
	if !p.skipName(name) {
		return p.unexpected("'" + name + "'")
	}
	return nil
}

// deeper counts one more level of nesting, which the caller undoes with p.nesting--.
func (p *parser) deeper() error {
	if p.nesting++; p.nesting > maxNesting {
		return p.fail(p.cur().line, "tags or brackets nest more than %d deep", maxNesting)
	}
	return nil
}

// template parses all tokens.
func (p *parser) template() (body, error) {
	b, err := p.statements()
	if err == nil && p.cur().kind != tokEOF {
		err = p.unexpected("the end of the template")
	}
	return b, err
}

// body parses what a tag encloses: the tag's end, statements, and the name of the tag in ends that closes it, which
// becomes the current token.
func (p *parser) body(ends ...string) (body, error) {
	p.skipOp(":")
	if _, err := p.expect(tokTagEnd); err != nil {
		return nil, err
	}
	b, err := p.statements(ends...)
	if err != nil {
		return nil, err
	}
	if p.cur().kind == tokEOF {
		return nil, p.fail(p.cur().line, "the template ends where %s was expected", quoteOr(ends))
	}
	return b, nil
}

// bodyTo is body, consuming the closing tag's name.
func (p *parser) bodyTo(end string) (body, error) {
	b, err := p.body(end)
	p.next()
	return b, err
}

func quoteOr(names []string) string { return "'" + strings.Join(names, "' or '") + "'" }

// statements parses up to one of the closing tags ends, or the end of the template.
func (p *parser) statements(ends ...string) (body, error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	outer := p.ends
	p.ends = append(p.ends[:len(p.ends):len(p.ends)], ends...)
	defer func() { p.nesting--; p.ends = outer }()
	var out body
	for {
		switch t := p.next(); t.kind {
		case tokEOF:
			return out, nil
		case tokData:
			out = append(out, &textStmt{t.text})
		case tokPrintBegin:
			value, err := p.tuple(tupleRules{condexpr: true})
			if err != nil {
				return nil, err
			}
			if _, err := p.expect(tokPrintEnd); err != nil {
				return nil, err
			}
			out = append(out, &printStmt{value, t.line})
		case tokTagBegin:
			for _, end := range ends {
				if p.isName(end) {
					return out, nil
				}
			}
			list, err := p.statement(ends)
			if err != nil {
				return nil, err
			}
			out = append(out, list...)
			if _, err := p.expect(tokTagEnd); err != nil {
				return nil, err
			}
		}
	}
}

// unknownTag explains a tag that cannot stand here.
func (p *parser) unknownTag(name token, ends []string) error {
	if len(ends) == 0 {
		return p.fail(name.line, "unknown tag '%s'", name.text)
	}
	for _, end := range p.ends {
		if name.text == end {
			return p.fail(name.line, "found '%s' where %s was expected: the tags are not nested properly", name.text, quoteOr(ends))
		}
	}
	return p.fail(name.line, "unknown tag '%s' where %s was expected", name.text, quoteOr(ends))
}
