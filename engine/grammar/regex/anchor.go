package regex

import (
	"errors"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// form is one way a pattern can match: a text of x, which must stand at the beginning or the end of the whole text if so
// marked.
type form struct {
	x          syntax.Expr
	begin, end bool
	size       int // nodes of x as a tree
}

// maxForms bounds the nodes of a pattern's forms: where anchors combine, parts are used more than once.
const maxForms = 4 * syntax.MaxSource

var errForms = errors.New("its anchors combine in too many ways")

// anchored returns the language of a pattern without its anchors: of the texts that match as a whole or, if not whole,
// of those that have a match in them.
func anchored(x syntax.Expr, whole bool) (syntax.Expr, error) {
	forms, err := formsOf(x)
	if err != nil {
		return nil, err
	}
	var options syntax.Alt
	for _, f := range forms {
		y := syntax.Seq{}
		if !f.begin && !whole {
			y = append(y, syntax.Star(syntax.AnyRune))
		}
		y = append(y, f.x)
		if !f.end && !whole {
			y = append(y, syntax.Star(syntax.AnyRune))
		}
		options = append(options, y)
	}
	return options, nil
}

// anchorsIn counts the anchors and the nodes of x.
func anchorsIn(x syntax.Expr) (anchors, nodes int) {
	nodes = 1
	if _, ok := x.(syntax.Anchor); ok {
		anchors = 1
	}
	syntax.Children(x, func(y syntax.Expr) {
		a, n := anchorsIn(y)
		anchors, nodes = anchors+a, nodes+n
	})
	return anchors, nodes
}

// formsOf moves the anchors of x outwards, which leaves at most four forms. Where something must be empty for an anchor
// to hold, it is left out if it can be empty, and else that form is impossible.
func formsOf(x syntax.Expr) ([]form, error) {
	anchors, nodes := anchorsIn(x)
	if anchors == 0 {
		return []form{{x: x, size: nodes}}, nil
	}
	var forms []form
	switch x := x.(type) {
	case syntax.Anchor:
		return []form{{syntax.Seq{}, x == '^', x == '$', 1}}, nil
	case syntax.Alt:
		for _, y := range x {
			more, err := formsOf(y)
			if err != nil {
				return nil, err
			}
			forms = append(forms, more...)
		}
	case syntax.Seq:
		forms = []form{{x: syntax.Seq{}}}
		for _, y := range x {
			more, err := formsOf(y)
			if err != nil {
				return nil, err
			}
			forms = joined(chain(forms, more))
			for _, f := range forms {
				if f.size > maxForms {
					return nil, errForms
				}
			}
		}
	case syntax.Repeat:
		return nil, errors.New("an anchor within a repetition is not supported")
	}
	return joined(forms), nil
}

// chain is the forms of one thing after another.
func chain(first, second []form) (forms []form) {
	for _, a := range first {
		for _, b := range second {
			f := form{begin: a.begin || b.begin, end: a.end || b.end, size: a.size + b.size + 1}
			x, y := a.x, b.x
			if b.begin {
				if !syntax.Nullable(x, nil) {
					continue
				}
				x = syntax.Seq{}
			}
			if a.end {
				if !syntax.Nullable(y, nil) {
					continue
				}
				y = syntax.Seq{}
			}
			f.x = concat(x, y)
			forms = append(forms, f)
		}
	}
	return forms
}

// concat is seq{x, y} without what is empty.
func concat(x, y syntax.Expr) syntax.Expr {
	if s, ok := x.(syntax.Seq); ok && len(s) == 0 {
		return y
	}
	if s, ok := y.(syntax.Seq); ok && len(s) == 0 {
		return x
	}
	return syntax.Seq{x, y}
}

// joined makes one form of those with the same anchors.
func joined(forms []form) (out []form) {
	for i := range 4 {
		f := form{begin: i&1 != 0, end: i&2 != 0}
		var options syntax.Alt
		for _, g := range forms {
			if g.begin == f.begin && g.end == f.end {
				options = append(options, g.x)
				f.size += g.size
			}
		}
		if f.x = options; len(options) == 1 {
			f.x = options[0]
		}
		if len(options) > 0 {
			out = append(out, f)
		}
	}
	return out
}
