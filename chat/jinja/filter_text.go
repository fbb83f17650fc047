package jinja

import (
	"strings"
	"unicode/utf8"
)

func filterTrim(r *render, value any, a args) (any, error) {
	got, err := a.bind("trim", 0, "chars")
	if err != nil {
		return nil, err
	}
	s, err := r.str(value)
	if err != nil {
		return nil, err
	}
	s, err = strip("strip", s, got[0])
	return like(value, s), err
}

func filterReplace(r *render, value any, a args) (any, error) {
	got, err := a.bind("replace", 2, "old", "new", "count")
	if err != nil {
		return nil, err
	}
	var part [3]string
	for i, v := range []any{value, got[0], got[1]} {
		if part[i], err = r.str(v); err != nil {
			return nil, err
		}
	}
	if got[2] == nil {
		got[2] = missing
	}
	count, err := integerOr(got[2], -1)
	if err != nil {
		return nil, err
	}
	return r.replace(part[0], part[1], part[2], count)
}

// filterTitle capitalises what follows white space and opening brackets or hyphens.
func filterTitle(s string) string {
	var b strings.Builder
	for s != "" {
		n := strings.IndexFunc(s, func(c rune) bool { return !isWordBreak(c) })
		if n < 0 {
			n = len(s)
		}
		b.WriteString(s[:n])
		s = s[n:]
		if n = strings.IndexFunc(s, isWordBreak); n < 0 {
			n = len(s)
		}
		if n > 0 {
			_, first := utf8.DecodeRuneInString(s)
			b.WriteString(upper(s[:first]) + lower(s[first:n]))
			s = s[n:]
		}
	}
	return b.String()
}

func isWordBreak(c rune) bool { return isSpace(c) || strings.ContainsRune("-({[<", c) }

func filterIndent(r *render, value any, a args) (any, error) {
	got, err := a.bind("indent", 0, "width", "first", "blank")
	if err != nil {
		return nil, err
	}
	indent, ok := text(got[0])
	if !ok {
		width, err := integerOr(got[0], 4)
		if err != nil {
			return nil, err
		}
		if indent, err = r.spaces(width); err != nil {
			return nil, err
		}
	}
	s, ok := text(value)
	if u, undef := value.(*undefined); undef {
		return nil, u.fail()
	}
	if !ok {
		return nil, fail("indent needs a str, not %s", typeName(value))
	}
	if isMarkup(value) {
		indent = escapeHTML(indent)
	}
	given := func(v any) bool { return v != missing && truth(v) }
	first, blank := given(got[1]), given(got[2])
	lines := splitLines(s+"\n", false)
	if err := r.growTimes(len(indent)+1, len(lines)); err != nil {
		return nil, err
	}
	for i, line := range lines {
		if i == 0 && first || i > 0 && (blank || line != "") {
			lines[i] = indent + line
		}
	}
	s, err = r.join(lines, "\n")
	return like(value, s), err
}

func filterJoin(r *render, value any, a args) (any, error) {
	got, err := a.bind("join", 0, "d", "attribute")
	if err != nil {
		return nil, err
	}
	sep := ""
	if got[0] != missing {
		if sep, err = r.str(got[0]); err != nil {
			return nil, err
		}
	}
	get := r.attrGetter(got[1], missing, nil)
	next, err := r.iterate(value)
	if err != nil {
		return nil, err
	}
	items, err := r.collect(next)
	if err != nil {
		return nil, err
	}
	parts := make([]string, len(items))
	for i, item := range items {
		if item, err = get(item); err != nil {
			return nil, err
		}
		if parts[i], err = r.str(item); err != nil {
			return nil, err
		}
	}
	return r.join(parts, sep)
}
