package tokenizer

import (
	"slices"
	"testing"
)

// TestStrippedStart: where Strip has taken away spaces, what is left is not the start of the text, and Metaspace's scheme
// "first" does not put a ▁ before it (as in tokenizers 0.23).
func TestStrippedStart(t *testing.T) {
	tok, err := FromJSON([]byte(`{
		"normalizer": {"type": "Sequence", "normalizers": [{"type": "Strip", "strip_left": true, "strip_right": true}, {"type": "Lowercase"}]},
		"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true},
		"model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "▁a": 1, "a": 2, "▁b": 3}}
	}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int32{"A b": {1, 3}, " a b": {2, 3}, "a b ": {1, 3}, "": {}} {
		got, err := tok.Encode(text, Options{})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v (%v), %v is right", text, got, err, want)
		}
	}
}
