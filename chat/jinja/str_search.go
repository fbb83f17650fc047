package jinja

import (
	"strings"
)

// integerOr gives an argument that must be an int that fits, or the default when it is missing. What does not fit is
// taken for the largest number: arguments count characters.
func integerOr(v any, def int) (int, error) {
	if v == missing {
		return def, nil
	}
	i, ok := bigInt(v)
	if u, undef := v.(*undefined); undef {
		return 0, u.fail()
	}
	if !ok {
		return 0, fail("'%s' object cannot be interpreted as an integer", typeName(v))
	}
	const most = 1 << 40
	if !i.IsInt64() || i.Int64() > most || i.Int64() < -most {
		return most * i.Sign(), nil
	}
	return int(i.Int64()), nil
}

// window gives the part of s between the optional arguments from and to, which count characters, and where in bytes it
// begins. ok is false when from lies behind the end.
func window(s string, from, to any) (part string, offset int, ok bool, err error) {
	n := runeCount(s)
	bound := func(v any, def int) (int, error) {
		if v == missing || v == nil {
			return def, nil
		}
		i, err := integerOr(v, def)
		if i < 0 {
			i = max(i+n, 0)
		}
		return i, err
	}
	i, err := bound(from, 0)
	if err != nil {
		return "", 0, false, err
	}
	j, err := bound(to, n)
	if err != nil || i > n {
		return "", 0, false, err
	}
	offset = byteIndex(s, i)
	return runeSlice(s, i, max(i, min(j, n))), offset, i <= j, nil
}

// strSearch is find, rfind, index, rindex and count.
func strSearch(name string) method {
	return func(r *render, recv any, a args) (any, error) {
		s, _ := text(recv)
		got, err := a.bind(name, 1, "sub/", "start/", "end/")
		if err != nil {
			return nil, err
		}
		sub, ok := text(got[0])
		if !ok {
			return nil, fail("%s() needs a str, not %s", name, typeName(got[0]))
		}
		if err := r.step(len(s) >> 8); err != nil {
			return nil, err
		}
		part, offset, ok, err := window(s, got[1], got[2])
		if err != nil {
			return nil, err
		}
		if name == "count" {
			if !ok {
				return int64(0), nil
			}
			return int64(strings.Count(part, sub)), nil
		}
		n := strings.Index(part, sub)
		if strings.HasPrefix(name, "r") {
			n = strings.LastIndex(part, sub)
		}
		if !ok || n < 0 {
			if strings.HasSuffix(name, "index") {
				return nil, fail("substring not found")
			}
			return int64(-1), nil
		}
		return int64(runeCount(s[:offset+n])), nil
	}
}

// strAffix is startswith and endswith.
func strAffix(name string) method {
	has := strings.HasPrefix
	if name == "endswith" {
		has = strings.HasSuffix
	}
	return func(_ *render, recv any, a args) (any, error) {
		s, _ := text(recv)
		got, err := a.bind(name, 1, "affix/", "start/", "end/")
		if err != nil {
			return nil, err
		}
		part, _, ok, err := window(s, got[1], got[2])
		if err != nil {
			return nil, err
		}
		choices := []any{got[0]}
		if t, isTuple := got[0].(*Tuple); isTuple {
			choices = t.items
		}
		for _, c := range choices {
			affix, isText := text(c)
			if !isText {
				return nil, fail("%s first arg must be str or a tuple of str, not %s", name, typeName(c))
			}
			if ok && has(part, affix) {
				return true, nil
			}
		}
		return false, nil
	}
}

// strStrip is strip, lstrip and rstrip.
func strStrip(name string) method {
	return func(_ *render, recv any, a args) (any, error) {
		s, _ := text(recv)
		got, err := a.bind(name, 0, "chars/")
		if err != nil {
			return nil, err
		}
		s, err = strip(name, s, got[0])
		return like(recv, s), err
	}
}

func strip(name, s string, chars any) (string, error) {
	in := isSpace
	if chars != missing && chars != nil {
		set, ok := text(chars)
		if !ok {
			return "", fail("%s arg must be None or str", name)
		}
		in = func(c rune) bool { return strings.ContainsRune(set, c) }
	}
	if name != "rstrip" {
		s = strings.TrimLeftFunc(s, in)
	}
	if name != "lstrip" {
		s = strings.TrimRightFunc(s, in)
	}
	return s, nil
}

// strRemove is removeprefix and removesuffix.
func strRemove(name string) method {
	return func(_ *render, recv any, a args) (any, error) {
		s, _ := text(recv)
		got, err := a.bind(name, 1, "affix/")
		if err != nil {
			return nil, err
		}
		affix, ok := text(got[0])
		if !ok {
			return nil, fail("%s() argument must be str, not %s", name, typeName(got[0]))
		}
		if name == "removeprefix" {
			return like(recv, strings.TrimPrefix(s, affix)), nil
		}
		return like(recv, strings.TrimSuffix(s, affix)), nil
	}
}
