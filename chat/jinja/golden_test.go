package jinja

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// golden.json holds templates, the context they are rendered with, and what Jinja2 3.1.6 (in transformers' set-up, on
// Python 3.11) printed or raised.
type goldenGroup struct {
	Context json.RawMessage
	Cases   []struct {
		T   string
		Out *string
		Err string
	}
}

func readGolden(t testing.TB) []goldenGroup {
	var groups []goldenGroup
	readJSON(t, "testdata/golden.json", &groups)
	return groups
}

func TestGolden(t *testing.T) {
	for _, g := range readGolden(t) {
		for _, c := range g.Cases {
			got, err := renderJSON("golden", c.T, g.Context)
			switch {
			case c.Out != nil && err != nil:
				t.Errorf("%q: %v, want %q", c.T, err, *c.Out)
			case c.Out == nil && err == nil:
				t.Errorf("%q: rendered %q, but upstream raises %s", c.T, got, c.Err)
			case c.Out != nil && got != *c.Out:
				t.Errorf("%q:\n got %q\nwant %q", c.T, got, *c.Out)
			}
			if message, ok := strings.CutPrefix(c.Err, "TemplateError('"); ok && err != nil {
				if want := strings.TrimSuffix(message, "')"); err.(*Error).Message != want || err.(*Error).Kind != Raised {
					t.Errorf("%q: raised %q (kind %d), want %q", c.T, err.(*Error).Message, err.(*Error).Kind, want)
				}
			}
		}
	}
}

// TestRenderIsPure renders each golden template twice with one parsed template and one context: rendering must change
// neither.
func TestRenderIsPure(t *testing.T) {
	for _, g := range readGolden(t) {
		v, err := DecodeJSON(g.Context)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range g.Cases {
			if c.Out == nil {
				continue
			}
			tmpl, err := Parse("golden", c.T)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				got, err := tmpl.Render(context.Background(), v.(*Map), Options{Now: referenceNow})
				if err != nil || got != *c.Out {
					t.Errorf("%q: got %q, %v, want %q", c.T, got, err, *c.Out)
				}
			}
		}
	}
}
