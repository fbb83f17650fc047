package grammar

import "fmt"

// stringFacts is what is said of a string.
type stringFacts struct {
	length sizes        // in code points
	forms  []*jsonValue // the patterns and formats
}

// string is the language of the strings that satisfy f.
func (c *schemaCompiler) string(f *facts) (expr, error) {
	s := &f.strings
	if s.length.impossible() {
		return alt{}, nil
	}
	if len(s.forms) > 0 {
		inside, err := c.inside(s)
		return seq{text(`"`), quoted{inside}, text(`"`)}, err
	}
	char := c.shared("a character", jsonChar)
	if s.length == (sizes{0, -1}) {
		return c.anyString(), nil
	}
	name := fmt.Sprintf("a string of %d to %d characters", s.length.min, s.length.max)
	return c.shared(name, seq{text(`"`), repeat{char, s.length.min, s.length.max}, text(`"`)}), nil
}

func (c *schemaCompiler) anyString() expr {
	return c.shared("a string", seq{text(`"`), star(jsonChar), text(`"`)})
}

// inside is the strings that patterns, formats and the bounds of the length allow.
func (c *schemaCompiler) inside(s *stringFacts) (expr, error) {
	if len(s.forms) == 1 {
		l, err := c.language(s.forms[0])
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
func withLength(x expr, length sizes) (expr, bool) {
	if length == (sizes{0, -1}) {
		return x, true
	}
	lengths := lengthsOf(x)
	if lengths.min >= length.min && (length.max < 0 || lengths.max >= 0 && lengths.max <= length.max) {
		return x, true
	}
	r, ok := only(x).(repeat)
	if !ok {
		return nil, false
	}
	if lengthsOf(r.x) != (sizes{1, 1}) {
		return nil, false
	}
	r.min = max(r.min, length.min)
	if length.max >= 0 && (r.max < 0 || r.max > length.max) {
		r.max = length.max
	}
	if r.max >= 0 && r.min > r.max {
		return alt{}, true
	}
	return r, true
}

// only takes away what groups nothing.
func only(x expr) expr {
	for {
		switch y := x.(type) {
		case seq:
			if len(y) != 1 {
				return x
			}
			x = y[0]
		case alt:
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
func lengthsOf(x expr) sizes {
	switch x := x.(type) {
	case class:
		return sizes{1, 1}
	case seq:
		sum := sizes{}
		for _, y := range x {
			l := lengthsOf(y)
			sum.min = min(sum.min+l.min, maxTimes)
			if sum.max < 0 || l.max < 0 || sum.max+l.max > maxTimes {
				sum.max = -1
			} else {
				sum.max += l.max
			}
		}
		return sum
	case alt:
		all := sizes{min: maxTimes}
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
	case repeat:
		l := lengthsOf(x.x)
		least, most := min(l.min*x.min, maxTimes), -1
		if x.max >= 0 && l.max >= 0 && l.max*x.max <= maxTimes || l.max == 0 {
			most = l.max * max(x.max, 0)
		}
		return sizes{least, most}
	}
	return sizes{0, -1}
}
