package jinja

import "strings"

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

func filterSafe(r *render, value any, a args) (any, error) {
	if _, err := a.bind("safe", 0); err != nil {
		return nil, err
	}
	s, err := r.str(value)
	return Markup(s), err
}
