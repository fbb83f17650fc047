package jinja

import (
	"strings"
	"unicode/utf8"
)

// strSplit is split and rsplit.
func strSplit(name string) method {
	return func(r *render, recv any, a args) (any, error) {
		s, _ := text(recv)
		got, err := a.bind(name, 0, "sep", "maxsplit")
		if err != nil {
			return nil, err
		}
		limit, err := integerOr(got[1], -1)
		if err != nil {
			return nil, err
		}
		if limit < 0 {
			limit = len(s) + 1
		}
		if err := r.step(len(s) >> 8); err != nil {
			return nil, err
		}
		if got[0] == missing || got[0] == nil {
			if name == "split" {
				return likeAll(r, recv, splitSpace(s, limit))
			}
			return likeAll(r, recv, rsplitSpace(s, limit))
		}
		sep, ok := text(got[0])
		switch {
		case !ok:
			return nil, fail("%s() needs a str or None as separator, not %s", name, typeName(got[0]))
		case sep == "":
			return nil, fail("empty separator")
		case name == "split":
			return likeAll(r, recv, strings.SplitN(s, sep, limit+1))
		}
		return likeAll(r, recv, rsplit(s, sep, limit))
	}
}

// splitSpace splits at runs of white space at most limit times.
func splitSpace(s string, limit int) []string {
	var parts []string
	for s = strings.TrimLeftFunc(s, isSpace); s != ""; s = strings.TrimLeftFunc(s, isSpace) {
		n := strings.IndexFunc(s, isSpace)
		if n < 0 || len(parts) == limit {
			n = len(s)
		}
		parts = append(parts, s[:n])
		s = s[n:]
	}
	return parts
}

func rsplitSpace(s string, limit int) []string {
	var parts []string
	for s = strings.TrimRightFunc(s, isSpace); s != ""; s = strings.TrimRightFunc(s, isSpace) {
		n := 0
		if len(parts) < limit {
			if n = strings.LastIndexFunc(s, isSpace); n >= 0 {
				_, size := utf8.DecodeRuneInString(s[n:])
				n += size
			}
		}
		n = max(n, 0)
		parts = append(parts, s[n:])
		s = s[:n]
	}
	return reverse(parts)
}

func rsplit(s, sep string, limit int) []string {
	var parts []string
	for ; limit > 0; limit-- {
		n := strings.LastIndex(s, sep)
		if n < 0 {
			break
		}
		parts = append(parts, s[n+len(sep):])
		s = s[:n]
	}
	return reverse(append(parts, s))
}

func reverse(parts []string) []string {
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return parts
}

func strSplitLines(r *render, recv any, a args) (any, error) {
	s, _ := text(recv)
	got, err := a.bind("splitlines", 0, "keepends")
	if err != nil {
		return nil, err
	}
	keep, err := integerOr(got[0], 0)
	if err != nil {
		return nil, err
	}
	return likeAll(r, recv, splitLines(s, keep != 0))
}

// splitLines cuts at everything that Python counts as the end of a line.
func splitLines(s string, keepEnds bool) []string {
	var lines []string
	for s != "" {
		n := strings.IndexFunc(s, isLineEnd)
		if n < 0 {
			return append(lines, s)
		}
		_, size := utf8.DecodeRuneInString(s[n:])
		if strings.HasPrefix(s[n:], "\r\n") {
			size = 2
		}
		line := s[:n]
		if keepEnds {
			line = s[:n+size]
		}
		lines = append(lines, line)
		s = s[n+size:]
	}
	return lines
}

func isLineEnd(c rune) bool {
	switch c {
	case '\n', '\r', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}

// strPartition is partition and rpartition.
func strPartition(name string) method {
	return func(_ *render, recv any, a args) (any, error) {
		s, _ := text(recv)
		got, err := a.bind(name, 1, "sep/")
		if err != nil {
			return nil, err
		}
		sep, ok := text(got[0])
		if !ok {
			return nil, fail("%s() needs a str, not %s", name, typeName(got[0]))
		}
		if sep == "" {
			return nil, fail("empty separator")
		}
		n, parts := strings.Index(s, sep), [3]string{s, "", ""}
		if name == "rpartition" {
			n, parts = strings.LastIndex(s, sep), [3]string{"", "", s}
		}
		if n >= 0 {
			parts = [3]string{s[:n], sep, s[n+len(sep):]}
		}
		return &Tuple{items: []any{like(recv, parts[0]), like(recv, parts[1]), like(recv, parts[2])}}, nil
	}
}
