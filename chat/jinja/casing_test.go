package jinja

import "testing"

// TestTitle: words go on after a character that is no letter of either case, be it no UTF-8 at all, and a sigma at the end of one becomes a final one.
func TestTitle(t *testing.T) {
	for s, want := range map[string]string{
		"they're here":   "They'Re Here",
		"ΟΔΥΣΣΕΥΣ ΣΟΦΟΣ": "Οδυσσευς Σοφος",
		"ab\xffcd\xe2":   "Ab\xffCd\xe2",
		"x\xff":          "X\xff",
	} {
		if got := title(s); got != want {
			t.Errorf("title of %q is %q, want %q", s, got, want)
		}
	}
}
