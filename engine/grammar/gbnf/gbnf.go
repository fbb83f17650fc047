// Package gbnf reads grammars in llama.cpp's notation.
package gbnf

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// Parse is the language of the rule root of a grammar in the notation of llama.cpp (its grammars/README.md): rules
// name ::= …, "literals", [classes], ., (groups), |, the repetitions * + ? {m} {m,} {m,n} {,n}, and # comments. A rule
// that begins with itself is refused by Compile. Tokens by their id, <[…]>, are refused.
func Parse(source string) (*syntax.Grammar, error) {
	if err := syntax.CheckSource("grammar", source); err != nil {
		return nil, err
	}
	if !utf8.ValidString(source) {
		return nil, errors.New("grammar: the GBNF text is not valid UTF-8")
	}
	p := parser{rest: source, index: map[string]int{}}
	if err := p.rules(); err != nil {
		line := 1 + strings.Count(source[:len(source)-len(p.rest)], "\n")
		return nil, fmt.Errorf("grammar: GBNF line %d: %w", line, err)
	}
	return p.grammar()
}

// parser reads a grammar by recursive descent.
type parser struct {
	rest  string
	depth int
	list  []syntax.Rule // a rule without a body has only been mentioned
	index map[string]int
}

func (p *parser) grammar() (*syntax.Grammar, error) {
	for _, r := range p.list {
		if r.Body == nil {
			return nil, fmt.Errorf("grammar: GBNF rule %q is used but not defined", r.Name)
		}
	}
	root, ok := p.index["root"]
	if !ok {
		return nil, errors.New(`grammar: the GBNF text has no rule "root"`)
	}
	return &syntax.Grammar{Rules: p.list, Root: root}, nil
}

func (p *parser) rules() error {
	for p.space(true); p.rest != ""; p.space(true) {
		name := p.name()
		if name == "" {
			return fmt.Errorf("the name of a rule is expected, not %q", p.ahead())
		}
		p.space(false)
		if !p.take("::=") {
			return fmt.Errorf("::= is expected after %q, not %q", name, p.ahead())
		}
		p.space(true)
		body, err := p.alternatives()
		if err != nil {
			return err
		}
		r := p.rule(name)
		if p.list[r].Body != nil {
			return fmt.Errorf("rule %q is defined twice", name)
		}
		p.list[r].Body = body
		if len(p.list) > syntax.MaxRules {
			return fmt.Errorf("there are more than %d rules", syntax.MaxRules)
		}
		if p.rest != "" && p.rest[0] != '\n' && p.rest[0] != '\r' {
			return fmt.Errorf("rule %q goes on with %q, which is not understood", name, p.ahead())
		}
	}
	return nil
}

// rule returns the index of the rule with a name.
func (p *parser) rule(name string) int {
	r, ok := p.index[name]
	if !ok {
		r = len(p.list)
		p.index[name] = r
		p.list = append(p.list, syntax.Rule{Name: name})
	}
	return r
}

// ahead is the next few characters, for an error.
func (p *parser) ahead() string {
	if p.rest == "" {
		return "the end"
	}
	r := []rune(p.rest[:min(len(p.rest), 80)])
	return string(r[:min(len(r), 12)])
}

func (p *parser) take(s string) bool {
	rest, ok := strings.CutPrefix(p.rest, s)
	p.rest = rest
	return ok
}

// space skips white space and comments; line ends only if lines is set.
func (p *parser) space(lines bool) {
	for p.rest != "" {
		switch c := p.rest[0]; {
		case c == ' ' || c == '\t' || lines && (c == '\n' || c == '\r'):
			p.rest = p.rest[1:]
		case c == '#':
			end := strings.IndexAny(p.rest, "\r\n")
			if end < 0 {
				end = len(p.rest)
			}
			p.rest = p.rest[end:]
		default:
			return
		}
	}
}

func (p *parser) name() string {
	n := 0
	for n < len(p.rest) && (p.rest[n] == '-' || p.rest[n] == '_' || p.rest[n] < 0x80 && (unicode.IsLetter(rune(p.rest[n])) || unicode.IsDigit(rune(p.rest[n])))) {
		n++
	}
	name := p.rest[:n]
	p.rest = p.rest[n:]
	return name
}

// alternatives takes one or more sequences with | between them. A | may begin the next line.
func (p *parser) alternatives() (syntax.Expr, error) {
	if p.depth++; p.depth > syntax.MaxNesting {
		return nil, fmt.Errorf("groups are nested more than %d deep", syntax.MaxNesting)
	}
	defer func() { p.depth-- }()
	options := syntax.Alt{}
	for {
		x, err := p.sequence()
		if err != nil {
			return nil, err
		}
		options = append(options, x)
		line := p.rest
		p.space(true)
		if !p.take("|") {
			if p.depth == 1 {
				p.rest = line
			}
			return options, nil
		}
		p.space(true)
	}
}

func (p *parser) sequence() (syntax.Expr, error) {
	parts := syntax.Seq{}
	for {
		x, err := p.item()
		if err != nil {
			return nil, err
		}
		if x == nil {
			return parts, nil
		}
		if x, err = p.quantified(x); err != nil {
			return nil, err
		}
		parts = append(parts, x)
		p.space(p.depth > 1)
	}
}

// item takes one item with what repeats it; nil where there is none.
func (p *parser) item() (syntax.Expr, error) {
	switch {
	case p.take(`"`):
		return p.literal()
	case p.take("["):
		return p.class()
	case p.take("."):
		return syntax.AnyRune, nil
	case p.take("("):
		p.space(true)
		x, err := p.alternatives()
		if err != nil {
			return nil, err
		}
		if !p.take(")") {
			return nil, fmt.Errorf("a ) is expected, not %q", p.ahead())
		}
		return x, nil
	case strings.HasPrefix(p.rest, "<") || strings.HasPrefix(p.rest, "!<"):
		return nil, errors.New("tokens in angle brackets are not supported; write the text that they stand for")
	}
	if name := p.name(); name != "" {
		return syntax.Ref(p.rule(name)), nil
	}
	return nil, nil
}

func (p *parser) quantified(x syntax.Expr) (syntax.Expr, error) {
	for range syntax.MaxNesting {
		p.space(p.depth > 1)
		switch {
		case p.take("*"):
			x = syntax.Star(x)
		case p.take("+"):
			x = syntax.Repeat{X: x, Min: 1, Max: -1}
		case p.take("?"):
			x = syntax.Optional(x)
		case p.take("{"):
			low, high, err := p.braces()
			if err != nil {
				return nil, err
			}
			x = syntax.Repeat{X: x, Min: low, Max: high}
		default:
			return x, nil
		}
	}
	return nil, fmt.Errorf("more than %d repetitions of repetitions", syntax.MaxNesting)
}

// braces takes m}, m,}, m,n} or ,n}.
func (p *parser) braces() (low, high int, err error) {
	number := func() (int, bool) {
		p.space(false)
		n := 0
		for n < len(p.rest) && p.rest[n] >= '0' && p.rest[n] <= '9' {
			n++
		}
		v, err := strconv.Atoi(p.rest[:n])
		p.rest = p.rest[n:]
		p.space(false)
		if err != nil && n > 0 {
			v = syntax.MaxTimes + 1
		}
		return v, n > 0
	}
	low, some := number()
	high = low
	if p.take(",") {
		if high, _ = number(); high == 0 {
			high = -1
		}
	} else if !some {
		return 0, 0, errors.New("a { wants a number")
	}
	switch {
	case !p.take("}"):
		return 0, 0, fmt.Errorf("a } is expected, not %q", p.ahead())
	case low > syntax.MaxTimes || high > syntax.MaxTimes:
		return 0, 0, fmt.Errorf("a repetition of more than %d times", syntax.MaxTimes)
	case high >= 0 && high < low:
		return 0, 0, fmt.Errorf("{%d,%d} has its bounds the wrong way round", low, high)
	}
	return low, high, nil
}
