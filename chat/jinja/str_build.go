package jinja

import (
	"strings"
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

// spaces is so many spaces; none if n is negative.
func (r *render) spaces(n int) (string, error) {
	if err := r.growTimes(1, max(n, 0)); err != nil {
		return "", err
	}
	return strings.Repeat(" ", max(n, 0)), nil
}
