package grammar

import "errors"

// form is one way a pattern can match: a text of x, which must stand at the beginning or the end of the whole text if so
// marked.
type form struct {
	x          expr
	begin, end bool
	size       int // nodes of x as a tree
}

// maxForms bounds the nodes of a pattern's forms: where anchors combine, parts are used more than once.
const maxForms = 4 * maxSource

var errForms = errors.New("its anchors combine in too many ways")

// anchored returns the language of a pattern without its anchors: of the texts that match as a whole or, if not whole,
// of those that have a match in them.
func anchored(x expr, whole bool) (expr, error) {
	forms, err := formsOf(x)
	if err != nil {
		return nil, err
	}
	var options alt
	for _, f := range forms {
		y := seq{}
		if !f.begin && !whole {
			y = append(y, star(anyRune))
		}
		y = append(y, f.x)
		if !f.end && !whole {
			y = append(y, star(anyRune))
		}
		options = append(options, y)
	}
	return options, nil
}

// anchorsIn counts the anchors and the nodes of x.
func anchorsIn(x expr) (anchors, nodes int) {
	nodes = 1
	if _, ok := x.(anchor); ok {
		anchors = 1
	}
	children(x, func(y expr) {
		a, n := anchorsIn(y)
		anchors, nodes = anchors+a, nodes+n
	})
	return anchors, nodes
}

// formsOf moves the anchors of x outwards, which leaves at most four forms. Where something must be empty for an anchor
// to hold, it is left out if it can be empty, and else that form is impossible.
func formsOf(x expr) ([]form, error) {
	anchors, nodes := anchorsIn(x)
	if anchors == 0 {
		return []form{{x: x, size: nodes}}, nil
	}
	var forms []form
	switch x := x.(type) {
	case anchor:
		return []form{{seq{}, x == '^', x == '$', 1}}, nil
	case alt:
		for _, y := range x {
			more, err := formsOf(y)
			if err != nil {
				return nil, err
			}
			forms = append(forms, more...)
		}
	case seq:
		forms = []form{{x: seq{}}}
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
	case repeat:
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
				if !nullable(x, nil) {
					continue
				}
				x = seq{}
			}
			if a.end {
				if !nullable(y, nil) {
					continue
				}
				y = seq{}
			}
			f.x = concat(x, y)
			forms = append(forms, f)
		}
	}
	return forms
}

// concat is seq{x, y} without what is empty.
func concat(x, y expr) expr {
	if s, ok := x.(seq); ok && len(s) == 0 {
		return y
	}
	if s, ok := y.(seq); ok && len(s) == 0 {
		return x
	}
	return seq{x, y}
}

// joined makes one form of those with the same anchors.
func joined(forms []form) (out []form) {
	for i := range 4 {
		f := form{begin: i&1 != 0, end: i&2 != 0}
		var options alt
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
