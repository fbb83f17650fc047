package gotemplate

import (
	"testing"

	"github.com/ridge-llm/ridge/chat/jinja"
)

// FuzzJinja: any text is refused or becomes a template that Jinja's parser takes, unless it was Jinja before.
func FuzzJinja(f *testing.F) {
	for _, source := range templates {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		got, err := Jinja(source)
		if err != nil || got == source {
			return
		}
		if _, err := jinja.Parse("t", got); err != nil {
			t.Errorf("%q: %v in %q", source, err, got)
		}
	})
}
