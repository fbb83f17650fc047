package jinja

import "fmt"

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokData
	tokPrintBegin // {{
	tokPrintEnd   // }}
	tokTagBegin   // {%
	tokTagEnd     // %}
	tokName
	tokString
	tokInteger
	tokFloat
	tokOperator
)

type token struct {
	kind  tokenKind
	line  int
	text  string // data, a name, a decoded string literal or an operator
	value any    // the number, of an integer or float
}

// is reports whether t is this operator or name.
func (t token) is(kind tokenKind, text string) bool { return t.kind == kind && t.text == text }

// String describes a token for an error sentence.
func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "the end of the template"
	case tokData:
		return "text"
	case tokPrintBegin:
		return "'{{'"
	case tokPrintEnd:
		return "'}}'"
	case tokTagBegin:
		return "'{%'"
	case tokTagEnd:
		return "'%}'"
	case tokString:
		return "a string"
	case tokInteger:
		return "an integer"
	case tokFloat:
		return "a float"
	}
	return fmt.Sprintf("'%s'", t.text)
}
