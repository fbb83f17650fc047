package sample

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestStopExamples(t *testing.T) {
	tests := []struct {
		name   string
		stop   Stop
		pieces []string // token i has the text pieces[i] and the id i
		sent   []string
		reason Reason
		match  string
	}{
		{"none", Stop{MaxTokens: 9}, []string{"a", "b"}, []string{"a", "b"}, "", ""},
		{"length", Stop{MaxTokens: 2}, []string{"a", "b"}, []string{"a", "b"}, ReasonLength, ""},
		{"across tokens", Stop{MaxTokens: 9, Strings: []string{"END"}}, []string{"x E", "N", "D y"}, []string{"x ", "", ""}, ReasonStop, "END"},
		{"included", Stop{MaxTokens: 9, Strings: []string{"END"}, Include: true}, []string{"x E", "N", "D y"}, []string{"x ", "", "END"}, ReasonStop, "END"},
		{"false alarm", Stop{MaxTokens: 9, Strings: []string{"END"}}, []string{"E", "N", "Ex"}, []string{"", "", "ENEx"}, "", ""},
		{"held part shrinks", Stop{MaxTokens: 9, Strings: []string{"aab"}}, []string{"aaa"}, []string{"a"}, "", ""},
		{"longer of two at one place", Stop{MaxTokens: 9, Strings: []string{"b", "ab"}}, []string{"xa", "b"}, []string{"x", ""}, ReasonStop, "ab"},
		{"first completed", Stop{MaxTokens: 9, Strings: []string{"abc", "b"}}, []string{"xabc"}, []string{"xa"}, ReasonStop, "b"},
		{"string before length", Stop{MaxTokens: 1, Strings: []string{"b"}}, []string{"ab"}, []string{"a"}, ReasonStop, "b"},
		{"length gives what was held", Stop{MaxTokens: 2, Strings: []string{"END"}}, []string{"xE", "N"}, []string{"x", "EN"}, ReasonLength, ""},
		{"token", Stop{MaxTokens: 9, Tokens: []int32{1}}, []string{"a", "</s>"}, []string{"a", ""}, ReasonStop, ""},
		{"token included", Stop{MaxTokens: 9, Tokens: []int32{1}, Include: true}, []string{"a", "</s>"}, []string{"a", "</s>"}, ReasonStop, ""},
		{"token gives what was held", Stop{MaxTokens: 9, Tokens: []int32{1}, Strings: []string{"ab"}}, []string{"a", "b"}, []string{"", "a"}, ReasonStop, ""},
		{"characters stay whole", Stop{MaxTokens: 9, Strings: []string{"é!"}}, []string{"è", "é", "?"}, []string{"è", "", "é?"}, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, err := NewStopper(test.stop)
			if err != nil {
				t.Fatal(err)
			}
			var last Piece
			for i, text := range test.pieces {
				last = s.Push(int32(i), text)
				if last.Text != test.sent[i] {
					t.Errorf("token %d (%q): sent %q, want %q", i, text, last.Text, test.sent[i])
				}
				if last.Reason != "" && i < len(test.pieces)-1 {
					t.Errorf("token %d (%q): ended early with %q", i, text, last.Reason)
				}
			}
			if last.Reason != test.reason || last.Match != test.match {
				t.Errorf("ended with %q, %q; want %q, %q", last.Reason, last.Match, test.reason, test.match)
			}
		})
	}
}

// TestStopAnyBorders: however a text is cut into tokens, what is sent is the text up to the stop string completed
// first; and after every token, what is held back is exactly the longest end that begins a stop string.
func TestStopAnyBorders(t *testing.T) {
	letters := rapid.StringOfN(rapid.RuneFrom([]rune("abé")), 1, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		stops := rapid.SliceOfN(letters, 0, 3).Draw(t, "stops")
		pieces := rapid.SliceOf(rapid.StringOfN(rapid.RuneFrom([]rune("abé")), 0, 3, -1)).Draw(t, "pieces")
		include := rapid.Bool().Draw(t, "include")
		s, err := NewStopper(Stop{Strings: stops, MaxTokens: len(pieces) + 1, Include: include})
		if err != nil {
			t.Fatal(err)
		}
		all, sent := "", ""
		for _, piece := range pieces {
			all += piece
			got := s.Push(0, piece)
			sent += got.Text
			want, match := firstStop(all, stops, include)
			if match != "" {
				if got.Reason != ReasonStop || got.Match != match || sent != want {
					t.Fatalf("%q: sent %q, %+v; want %q stopped by %q", all, sent, got, want, match)
				}
				return
			}
			if held := longestBeginning(all, stops); got.Reason != "" || sent+held != all {
				t.Fatalf("%q: sent %q, %q; want all but %q", all, sent, got.Reason, held)
			}
		}
		if sent+s.Flush() != all {
			t.Fatalf("the answer lost text: %q of %q", sent, all)
		}
	})
}

// firstStop is the definition: the text to send and the stop string, if text holds one.
func firstStop(text string, stops []string, include bool) (string, string) {
	for end := range len(text) + 1 {
		match := ""
		for _, stop := range stops {
			if strings.HasSuffix(text[:end], stop) && len(stop) > len(match) {
				match = stop
			}
		}
		if match != "" && include {
			return text[:end], match
		} else if match != "" {
			return text[:end-len(match)], match
		}
	}
	return text, ""
}

func longestBeginning(text string, stops []string) string {
	for start := range len(text) {
		for _, stop := range stops {
			if strings.HasPrefix(stop, text[start:]) {
				return text[start:]
			}
		}
	}
	return ""
}

func TestStopValidate(t *testing.T) {
	many := make([]string, MaxStopStrings+1)
	for i := range many {
		many[i] = "x"
	}
	for want, stop := range map[string]Stop{
		"max_tokens is 0":                   {},
		"max_tokens is -1":                  {MaxTokens: -1},
		"stop string 1 is empty":            {MaxTokens: 1, Strings: []string{"a", ""}},
		"stop string 0 is not valid UTF-8":  {MaxTokens: 1, Strings: []string{"\xff"}},
		"stop has 65 strings":               {MaxTokens: 1, Strings: many},
		"stop string 0 is 4097 bytes long;": {MaxTokens: 1, Strings: []string{strings.Repeat("x", 4097)}},
	} {
		if _, err := NewStopper(stop); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
