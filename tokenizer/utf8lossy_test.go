package tokenizer

import (
	"testing"
	"unicode/utf8"
)

// The pairs are those of Rust's documentation and tests of String::from_utf8_lossy.
func TestValidText(t *testing.T) {
	for in, want := range map[string]string{
		"hello":                                  "hello",
		"ศไทย中华Việt Nam":                         "ศไทย中华Việt Nam",
		"Hello\xC2 There\xFF Goodbye":            "Hello\uFFFD There\uFFFD Goodbye",
		"Hello\xC0\x80 There\xE6\x83 Goodbye":    "Hello\uFFFD\uFFFD There\uFFFD Goodbye",
		"\xF5foo\xF5\x80bar":                     "\uFFFDfoo\uFFFD\uFFFDbar",
		"\xF1foo\xF1\x80bar\xF1\x80\x80baz":      "\uFFFDfoo\uFFFDbar\uFFFDbaz",
		"\xF4foo\xF4\x80bar\xF4\xBFbaz":          "\uFFFDfoo\uFFFDbar\uFFFD\uFFFDbaz",
		"\xF0\x80\x80\x80foo\xF0\x90\x80\x80bar": "\uFFFD\uFFFD\uFFFD\uFFFDfoo\U00010000bar",
		"\xED\xA0\x80foo\xED\xBF\xBFbar":         "\uFFFD\uFFFD\uFFFDfoo\uFFFD\uFFFD\uFFFDbar",
	} {
		if got := validText(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestIncompleteSuffix(t *testing.T) {
	for in, want := range map[string]int{
		"": 0, "a": 0, "é": 0, "\xC3": 1, "a\xE3\x80": 2, "\xF0\x9F\xA6": 3, "\x80": 0, "\xFF": 0, "\xC3a": 0, "\xE0\x80": 0, "\xED\xA0": 0, "\xC0": 0,
	} {
		if got := incompleteSuffix([]byte(in)); got != want {
			t.Errorf("%q: got %d, want %d", in, got, want)
		}
	}
}

func FuzzValidText(f *testing.F) {
	f.Add("a\xE3\x80b\xF0\x9F")
	f.Fuzz(func(t *testing.T, s string) {
		if got := validText(s); !utf8.ValidString(got) || utf8.ValidString(s) && got != s {
			t.Errorf("%q became %q", s, got)
		}
	})
}
