package jinja

import (
	"context"
	"testing"
	"unicode/utf8"
)

// addGolden seeds a fuzzer with the templates of the golden tests.
func addGolden(f *testing.F) {
	for _, g := range readGolden(f) {
		for _, c := range g.Cases {
			f.Add(c.T)
		}
	}
	for _, source := range hostile {
		f.Add(source)
	}
	f.Add(chatml)
}

// FuzzParse: whatever the source, Parse ends with a template or with an Error that names a line.
func FuzzParse(f *testing.F) {
	addGolden(f)
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Parse("fuzz", source)
		if err == nil && tmpl == nil {
			t.Error("neither a template nor an error")
		}
		checkError(t, err)
	})
}

func checkError(t *testing.T, err error) {
	if err == nil {
		return
	}
	e, ok := err.(*Error)
	if !ok || e.Template != "fuzz" || e.Line < 1 || e.Message == "" && e.Kind != Raised {
		t.Errorf("%#v is not a whole Error", err)
	}
}

// FuzzRender: whatever the template, rendering ends within its limits, the same way twice, and gives valid text.
func FuzzRender(f *testing.F) {
	addGolden(f)
	var contexts []*Map
	for _, g := range readGolden(f) {
		v, err := DecodeJSON(g.Context)
		if err != nil {
			f.Fatal(err)
		}
		contexts = append(contexts, v.(*Map))
	}
	contexts = append(contexts, longConversation(4))
	opts := Options{Now: referenceNow, Limits: Limits{Steps: 20_000, Memory: 4 << 20, Output: 1 << 20, Depth: 50}}
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Parse("fuzz", source)
		if err != nil {
			return
		}
		for _, vars := range contexts {
			out, err := tmpl.Render(context.Background(), vars, opts)
			checkError(t, err)
			if len(out) > opts.Limits.Output {
				t.Errorf("printed %d bytes", len(out))
			}
			if !utf8.ValidString(out) {
				t.Errorf("printed invalid UTF-8: %q", out)
			}
			again, err2 := tmpl.Render(context.Background(), vars, opts)
			if again != out || (err == nil) != (err2 == nil) {
				t.Errorf("rendered %q (%v), then %q (%v)", out, err, again, err2)
			}
		}
	})
}

// FuzzDecodeJSON: whatever the text, DecodeJSON ends, and what it decodes tojson writes in a form that decodes equal.
func FuzzDecodeJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,null,true,"x\u00e9"],"b":{}}`, `[1e400,-0,12345678901234567890]`, `"\ud83d\ude00"`, `{"a":1,"a":2}`, `[[[`, ``} {
		f.Add(s)
	}
	tmpl, err := Parse("fuzz", "{{ v|tojson }}")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := DecodeJSON([]byte(s))
		if err != nil {
			return
		}
		render := func(v any) string {
			out, err := tmpl.Render(context.Background(), NewMap().Set("v", v), Options{})
			if err != nil {
				t.Skip("a limit")
			}
			return out
		}
		first := render(v)
		again, err := DecodeJSON([]byte(first))
		if err != nil {
			t.Skip("Python writes Infinity, which JSON has not")
		}
		if second := render(again); second != first {
			t.Errorf("%s became %s", first, second)
		}
	})
}
