package jinja

import (
	"html"
	"strings"
)

// escapeHTML replaces what means something in HTML.
func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(s)
}

// escape gives the text of a value as HTML: Markup as it is, other things escaped.
func (r *render) escape(v any) (string, error) {
	s, err := r.str(v)
	if err != nil || isMarkup(v) {
		return s, err
	}
	if err := r.growTimes(len(s), 5); err != nil {
		return "", err
	}
	return escapeHTML(s), nil
}

func filterEscape(r *render, value any, a args) (any, error) {
	if _, err := a.bind("escape", 0); err != nil {
		return nil, err
	}
	s, err := r.escape(value)
	return Markup(s), err
}

func filterForceEscape(r *render, value any, a args) (any, error) {
	if _, err := a.bind("forceescape", 0); err != nil {
		return nil, err
	}
	s, err := r.str(value)
	if err == nil {
		s, err = r.escape(s)
	}
	return Markup(s), err
}

func filterSafe(r *render, value any, a args) (any, error) {
	if _, err := a.bind("safe", 0); err != nil {
		return nil, err
	}
	s, err := r.str(value)
	return Markup(s), err
}

// filterStripTags takes out comments and tags, makes white space single spaces, and decodes character references.
func filterStripTags(r *render, value any, a args) (any, error) {
	if _, err := a.bind("striptags", 0); err != nil {
		return nil, err
	}
	s, err := r.str(value)
	if err != nil {
		return nil, err
	}
	s = cutAll(cutAll(s, "<!--", "-->"), "<", ">")
	return html.UnescapeString(strings.Join(splitSpace(s, len(s)), " ")), r.grow(len(s))
}

// cutAll takes out everything from an open to the next end, as long as there are both.
func cutAll(s, open, end string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, open)
		if i < 0 {
			break
		}
		j := strings.Index(s[i:], end)
		if j < 0 {
			break
		}
		b.WriteString(s[:i])
		s = s[i+j+len(end):]
	}
	return b.String() + s
}

// filterXMLAttr writes the entries of a dict as attributes of a tag.
func filterXMLAttr(r *render, value any, a args) (any, error) {
	got, err := a.bind("xmlattr", 0, "autospace")
	if err != nil {
		return nil, err
	}
	if u, ok := value.(*undefined); ok {
		return nil, u.fail()
	}
	m, ok := value.(*Map)
	if !ok {
		return nil, fail("'%s' object has no attribute 'items'", typeName(value))
	}
	var parts []string
	for i := range m.Len() {
		k, v := m.At(i)
		if _, absent := v.(*undefined); absent || v == nil {
			continue
		}
		key, ok := text(k)
		if !ok {
			return nil, fail("expected string or bytes-like object, got '%s'", typeName(k))
		}
		if strings.ContainsAny(key, " \t\n\r\f\v/>=") {
			return nil, fail("Invalid character in attribute name: %s", quote(key))
		}
		if key, err = r.escape(k); err != nil {
			return nil, err
		}
		text, err := r.escape(v)
		if err != nil {
			return nil, err
		}
		parts = append(parts, key+`="`+text+`"`)
	}
	s, err := r.join(parts, " ")
	if s != "" && (got[0] == missing || truth(got[0])) {
		s = " " + s
	}
	return s, err
}

// filterURLEncode quotes a text for a path, or the entries of a dict or a list of pairs for a query.
func filterURLEncode(r *render, value any, a args) (any, error) {
	if _, err := a.bind("urlencode", 0); err != nil {
		return nil, err
	}
	_, isText := text(value)
	pairs, notIterable := r.iterate(value)
	if isText || notIterable != nil {
		s, err := r.str(value)
		if err != nil {
			return nil, err
		}
		return percentEncode(s, "/"), r.growTimes(len(s), 3)
	}
	if m, ok := value.(*Map); ok {
		pairs, _ = r.iterate(&dictView{m, "items"})
	}
	items, err := r.collect(pairs)
	if err != nil {
		return nil, err
	}
	var parts []string
	for _, item := range items {
		pair, err := r.items(item)
		if err != nil {
			return nil, err
		}
		if len(pair) != 2 {
			return nil, fail("urlencode needs pairs, and got %d values", len(pair))
		}
		var s [2]string
		for i := range s {
			if s[i], err = r.str(pair[i]); err != nil {
				return nil, err
			}
			if err := r.growTimes(len(s[i]), 3); err != nil {
				return nil, err
			}
			s[i] = strings.ReplaceAll(percentEncode(s[i], ""), "%20", "+")
		}
		parts = append(parts, s[0]+"="+s[1])
	}
	return r.join(parts, "&")
}

func percentEncode(s, safe string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if isDecimal(c) || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("_.-~"+safe, c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + strings.ToUpper(hex(rune(c), 2)))
		}
	}
	return b.String()
}
