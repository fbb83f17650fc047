package jinja

import (
	"strings"
	"unicode/utf8"
)

func strJoin(r *render, recv any, a args) (any, error) {
	sep, _ := text(recv)
	got, err := a.bind("join", 1, "iterable/")
	if err != nil {
		return nil, err
	}
	items, err := r.items(got[0])
	if err != nil {
		if _, noIterable := r.iterate(got[0]); noIterable != nil {
			return nil, fail("can only join an iterable")
		}
		return nil, err
	}
	parts := make([]string, len(items))
	for i, item := range items {
		s, ok := text(item)
		switch {
		case isMarkup(recv):
			if s, err = r.escape(item); err != nil {
				return nil, err
			}
		case !ok:
			return nil, fail("sequence item %d: expected str instance, %s found", i, typeName(item))
		}
		parts[i] = s
	}
	s, err := r.join(parts, sep)
	return like(recv, s), err
}

// join is strings.Join within the budget.
func (r *render) join(parts []string, sep string) (string, error) {
	if err := r.growTimes(len(sep), len(parts)); err != nil {
		return "", err
	}
	for _, p := range parts {
		if err := r.grow(len(p)); err != nil {
			return "", err
		}
	}
	return strings.Join(parts, sep), nil
}

func strReplace(r *render, recv any, a args) (any, error) {
	s, _ := text(recv)
	got, err := a.bind("replace", 2, "old/", "new/", "count/")
	if err != nil {
		return nil, err
	}
	old, ok := text(got[0])
	if !ok {
		return nil, fail("replace() argument 1 must be str, not %s", typeName(got[0]))
	}
	with, ok := text(got[1])
	if isMarkup(recv) {
		with, err = r.escape(got[1])
	} else if !ok {
		err = fail("replace() argument 2 must be str, not %s", typeName(got[1]))
	}
	if err != nil {
		return nil, err
	}
	count, err := integerOr(got[2], -1)
	if err != nil {
		return nil, err
	}
	s, err = r.replace(s, old, with, count)
	return like(recv, s), err
}

// replace is strings.Replace within the budget.
func (r *render) replace(s, old, with string, count int) (string, error) {
	n := strings.Count(s, old)
	if count >= 0 {
		n = min(n, count)
	}
	if err := r.grow(len(s)); err != nil {
		return "", err
	}
	if err := r.growTimes(len(with), n); err != nil {
		return "", err
	}
	return strings.Replace(s, old, with, n), nil
}

// strPad is center, ljust and rjust.
func strPad(name string) method {
	return func(r *render, recv any, a args) (any, error) {
		s, _ := text(recv)
		got, err := a.bind(name, 1, "width/", "fillchar/")
		if err != nil {
			return nil, err
		}
		width, err := integerOr(got[0], 0)
		if err != nil {
			return nil, err
		}
		fill := " "
		if got[1] != missing {
			var ok bool
			if fill, ok = text(got[1]); !ok || runeCount(fill) != 1 {
				return nil, fail("the fill character must be exactly one character long")
			}
			if isMarkup(recv) {
				if fill = escapeHTML(fill); len(fill) > utf8.UTFMax {
					return nil, fail("the fill character must be exactly one character long")
				}
			}
		}
		s, err = r.pad(name, s, width, fill)
		return like(recv, s), err
	}
}

// pad fills s up to width characters: "center", "ljust" or "rjust".
func (r *render) pad(where, s string, width int, fill string) (string, error) {
	n := width - runeCount(s)
	if n <= 0 {
		return s, nil
	}
	if err := r.growTimes(len(fill), n); err != nil {
		return "", err
	}
	left := 0
	switch where {
	case "rjust":
		left = n
	case "center":
		left = n/2 + n&width&1
	}
	return strings.Repeat(fill, left) + s + strings.Repeat(fill, n-left), nil
}

func strZfill(r *render, recv any, a args) (any, error) {
	s, _ := text(recv)
	got, err := a.bind("zfill", 1, "width/")
	if err != nil {
		return nil, err
	}
	width, err := integerOr(got[0], 0)
	if err != nil {
		return nil, err
	}
	sign := ""
	if s != "" && (s[0] == '+' || s[0] == '-') {
		sign, s = s[:1], s[1:]
	}
	s, err = r.pad("rjust", s, width-len(sign), "0")
	return like(recv, sign+s), err
}

func strExpandTabs(r *render, recv any, a args) (any, error) {
	s, _ := text(recv)
	got, err := a.bind("expandtabs", 0, "tabsize")
	if err != nil {
		return nil, err
	}
	size, err := integerOr(got[0], 8)
	if err != nil {
		return nil, err
	}
	if err := r.growTimes(max(size, 0), strings.Count(s, "\t")); err != nil {
		return nil, err
	}
	var b strings.Builder
	column := 0
	for _, c := range s {
		switch {
		case c == '\t' && size > 0:
			n := size - column%size
			b.WriteString(strings.Repeat(" ", n))
			column += n
		case c == '\t':
		case c == '\n' || c == '\r':
			b.WriteRune(c)
			column = 0
		default:
			b.WriteRune(c)
			column++
		}
	}
	return like(recv, b.String()), nil
}

// strMakeTrans makes the table that translate takes: from a dict, or from texts of equal length and what to delete.
func strMakeTrans(r *render, _ any, a args) (any, error) {
	got, err := a.bind("maketrans", 1, "x/", "y/", "z/")
	if err != nil {
		return nil, err
	}
	table := NewMap()
	if m, ok := got[0].(*Map); ok && got[1] == missing {
		for i := range m.Len() {
			k, v := m.At(i)
			if s, ok := text(k); ok {
				if runeCount(s) != 1 {
					return nil, fail("string keys in translate table must be of length 1")
				}
				k = int64([]rune(s)[0])
			}
			if err := table.set(r, k, v); err != nil {
				return nil, err
			}
		}
		return table, nil
	}
	x, okX := text(got[0])
	y, okY := text(got[1])
	if !okX || !okY || runeCount(x) != runeCount(y) {
		return nil, fail("maketrans() needs a dict, or two texts of equal length")
	}
	to := []rune(y)
	for i, c := range []rune(x) {
		if err := table.set(r, int64(c), int64(to[i])); err != nil {
			return nil, err
		}
	}
	if z, ok := text(got[2]); ok {
		for _, c := range z {
			if err := table.set(r, int64(c), nil); err != nil {
				return nil, err
			}
		}
	}
	return table, nil
}

func strTranslate(r *render, recv any, a args) (any, error) {
	s, _ := text(recv)
	got, err := a.bind("translate", 1, "table/")
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, c := range s {
		to, found, err := r.subscript(got[0], int64(c))
		if err != nil {
			return nil, err
		}
		out := string(c)
		if found {
			if t, ok := text(to); ok {
				out = t
			} else if code, ok := to.(int64); ok && code >= 0 && code <= utf8.MaxRune {
				out = string(rune(code))
			} else if to == nil {
				out = ""
			} else {
				return nil, fail("character mapping must return an integer, None or str")
			}
		}
		if err := r.grow(len(out)); err != nil {
			return nil, err
		}
		b.WriteString(out)
	}
	return like(recv, b.String()), nil
}
