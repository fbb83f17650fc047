package schema

import (
	"fmt"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// stringFacts is the constraints of a string.
type stringFacts struct {
	length sizes  // in code points
	forms  []form // the patterns, formats and texts that are left out
}

// form is a keyword that says how a string looks.
type form struct {
	key   string
	value *jsonValue
}

// add takes a keyword.
func (s *stringFacts) add(key string, v *jsonValue) {
	switch key {
	case "minLength":
		s.length.atLeast(v)
	case "maxLength":
		s.length.atMost(v)
	case "pattern", "format", otherPattern, otherThan:
		s.forms = append(s.forms, form{key, v})
	}
}

// string is the language of the strings that satisfy f.
func (c *compiler) string(f *facts) (syntax.Expr, error) {
	s := &f.strings
	if s.length.impossible() {
		return syntax.Alt{}, nil
	}
	if len(s.forms) > 0 {
		inside, err := c.inside(s)
		return syntax.Seq{syntax.Text(`"`), syntax.Quoted{X: inside}, syntax.Text(`"`)}, err
	}
	char := c.shared("a character", jsonChar)
	if s.length == (sizes{0, -1}) {
		return c.anyString(), nil
	}
	name := fmt.Sprintf("a string of %d to %d characters", s.length.min, s.length.max)
	return c.shared(name, syntax.Seq{syntax.Text(`"`), syntax.Repeat{X: char, Min: s.length.min, Max: s.length.max}, syntax.Text(`"`)}), nil
}

func (c *compiler) anyString() syntax.Expr {
	return c.shared("a string", syntax.Seq{syntax.Text(`"`), syntax.Star(jsonChar), syntax.Text(`"`)})
}

// inside is the strings that patterns, formats and the bounds of the length allow.
func (c *compiler) inside(s *stringFacts) (syntax.Expr, error) {
	if len(s.forms) == 1 {
		l, err := c.language(s.forms[0].value, s.forms[0].key, s.forms[0].value.text)
		if err != nil {
			return nil, err
		}
		if x, ok := withLength(l.x, s.length); ok {
			return x, nil
		}
	}
	return c.together(s)
}

// withLength bounds the length of the texts of x where that is simple: nothing to do, or x is any number of one
// character each.
func withLength(x syntax.Expr, length sizes) (syntax.Expr, bool) {
	if length == (sizes{0, -1}) {
		return x, true
	}
	lengths := lengthsOf(x)
	if lengths.min >= length.min && (length.max < 0 || lengths.max >= 0 && lengths.max <= length.max) {
		return x, true
	}
	r, ok := only(x).(syntax.Repeat)
	if !ok {
		return nil, false
	}
	if lengthsOf(r.X) != (sizes{1, 1}) {
		return nil, false
	}
	r.Min = max(r.Min, length.min)
	if length.max >= 0 && (r.Max < 0 || r.Max > length.max) {
		r.Max = length.max
	}
	if r.Max >= 0 && r.Min > r.Max {
		return syntax.Alt{}, true
	}
	return r, true
}

// only takes away what groups nothing.
func only(x syntax.Expr) syntax.Expr {
	for {
		switch y := x.(type) {
		case syntax.Seq:
			if len(y) != 1 {
				return x
			}
			x = y[0]
		case syntax.Alt:
			if len(y) != 1 {
				return x
			}
			x = y[0]
		default:
			return x
		}
	}
}

// lengthsOf is the least and the most code points that texts of x have.
func lengthsOf(x syntax.Expr) sizes {
	switch x := x.(type) {
	case syntax.Class:
		return sizes{1, 1}
	case syntax.Seq:
		sum := sizes{}
		for _, y := range x {
			l := lengthsOf(y)
			sum.min = min(sum.min+l.min, syntax.MaxTimes)
			if sum.max < 0 || l.max < 0 || sum.max+l.max > syntax.MaxTimes {
				sum.max = -1
			} else {
				sum.max += l.max
			}
		}
		return sum
	case syntax.Alt:
		all := sizes{min: syntax.MaxTimes}
		for _, y := range x {
			l := lengthsOf(y)
			all.min = min(all.min, l.min)
			if all.max < 0 || l.max < 0 {
				all.max = -1
			} else {
				all.max = max(all.max, l.max)
			}
		}
		return all
	case syntax.Repeat:
		l := lengthsOf(x.X)
		least, most := min(l.min*x.Min, syntax.MaxTimes), -1
		if x.Max >= 0 && l.max >= 0 && l.max*x.Max <= syntax.MaxTimes || l.max == 0 {
			most = l.max * max(x.Max, 0)
		}
		return sizes{least, most}
	}
	return sizes{0, -1}
}
