package grammar

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// Grammars of parts, for answers that are more than one language: reasoning before JSON, calls of tools.

// Text is the grammar of exactly one text, which is valid UTF-8.
func Text(s string) *Grammar { return syntax.Single(syntax.Text(s)) }

// Space is white space of at most so many characters, perhaps none.
func Space(most int) *Grammar {
	return syntax.Single(syntax.Repeat{X: syntax.ClassOf(" \t\r\n"), Min: 0, Max: most})
}

// Special is the grammar of one special token, by its name in Tokens.Special.
func Special(name string) *Grammar { return syntax.Single(special(name)) }

func special(name string) syntax.Expr {
	return syntax.Seq{syntax.Marker{}, syntax.Text(name), syntax.Marker{}}
}

// Seq is texts of all parts, one after the other.
func Seq(parts ...*Grammar) *Grammar {
	return syntax.Join(parts, func(x []syntax.Expr) syntax.Expr { return syntax.Seq(x) })
}

// Choice is a text of any one of the options.
func Choice(options ...*Grammar) *Grammar {
	return syntax.Join(options, func(x []syntax.Expr) syntax.Expr { return syntax.Alt(x) })
}

// Optional is a text of g or nothing.
func Optional(g *Grammar) *Grammar { return Choice(g, Text("")) }

// List is one text of g or more, with a separator between them.
func List(g, separator *Grammar) *Grammar {
	return syntax.Join([]*Grammar{g, separator}, func(x []syntax.Expr) syntax.Expr { return syntax.Seq{x[0], syntax.Star(syntax.Seq{x[1], x[0]})} })
}

// FromChoices is the grammar of exactly these texts.
func FromChoices(choices []string) (*Grammar, error) {
	if len(choices) == 0 {
		return nil, errors.New("grammar: the list of choices is empty; give at least one")
	}
	var options syntax.Alt
	size := 0
	for i, c := range choices {
		size += len(c)
		if size > syntax.MaxSource {
			return nil, fmt.Errorf("grammar: the choices have more than %d bytes", syntax.MaxSource)
		}
		if !utf8.ValidString(c) {
			return nil, fmt.Errorf("grammar: choice %d is not valid UTF-8", i)
		}
		options = append(options, syntax.Text(c))
	}
	return &Grammar{Rules: []syntax.Rule{{Name: "root", Body: options}}}, nil
}

// AnyText is any text without special tokens.
func AnyText() *Grammar { return syntax.Single(syntax.Star(syntax.AnyRune)) }

// Without is any text without special tokens in which stop does not come; "": any text.
func Without(stop string) *Grammar {
	if stop == "" {
		return AnyText()
	}
	return syntax.Single(syntax.Without([]string{stop}, nil))
}

// Free is any text, special tokens included, in which none of the stops comes: what a model writes before something
// that it has to write in a form. A stop is a text, or the name of a special token.
func Free(texts, specials []string) *Grammar {
	return syntax.Single(syntax.Without(texts, syntax.Seq{syntax.Marker{}, syntax.OtherText(specials), syntax.Marker{}}))
}
