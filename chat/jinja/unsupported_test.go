package jinja

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestUnsupported: what Ridge's Jinja does not have is refused by name: tags when the template is parsed, the rest when it is
// reached.
func TestUnsupported(t *testing.T) {
	for source, want := range map[string]string{
		"{% block head %}{% endblock %}":           "the tag 'block'",
		"a\n{% include 'other' %}":                 "t:2: Ridge's Jinja does not have the tag 'include'",
		"{% extends 'other' %}":                    "the tag 'extends'",
		"{% import 'other' as o %}":                "the tag 'import'",
		"{% autoescape true %}{% endautoescape %}": "the tag 'autoescape'",
		"{{ x|wordwrap(9) }}":                      "the filter 'wordwrap'",
		"{{ x|pprint }}":                           "the filter 'pprint'",
		"{{ '%s'|format(x) }}":                     "the filter 'format'",
		"{{ '%s' % x }}":                           "format text with %",
		"{{ '{}'.format(x) }}":                     "str.format",
		"{{ cycler(1, 2) }}":                       "cycler()",
		"{{ 1|abs }}":                              "the filter 'abs'",
		"{{ [0.5]|map('round')|list }}":            "the filter 'round'",
		"{{ 'x'|float }}":                          "the filter 'float'",
		"{{ []|sum }}":                             "the filter 'sum'",
		"{{ '1f'|int(0, 16) }}":                    "the base of the filter 'int'",
		"{{ 'a' is lower }}":                       "the test 'lower'",
		"{{ 'a'.isdigit() }}":                      "str.isdigit",
		"{{ {}.copy() }}":                          "dict.copy",
		"{{ dict.fromkeys('ab') }}":                "dict.fromkeys",
		"{{ [].index(1) }}":                        "list.index",
		"{{ [].copy() }}":                          "list.copy",
		"{{ (1, 2).count(1) }}":                    "tuple.count",
		"{{ range(3).start }}":                     "range.start",
		"{{ range(3).index(1) }}":                  "range.index",
	} {
		tmpl, err := Parse("t", source)
		if err == nil {
			_, err = tmpl.Render(context.Background(), NewMap(), Options{})
		}
		var e *Error
		if !errors.As(err, &e) || e.Kind != Unsupported || !strings.Contains(e.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", source, err, want)
		}
	}
	// A template that does not reach it is rendered.
	if got, err := renderJSON("t", "{% if false %}{{ x|pprint }}{% endif %}ok", []byte("{}")); got != "ok" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
