package api

import (
	"bytes"
	"encoding/json"
	"iter"
	"unicode/utf8"
)

// Members are the names and values of a JSON object, in order and as they are written, those of a name that stands twice both; none if text is no object. The text must be valid, as what
// encoding/json gives to json.Unmarshaler is. Nothing is copied but names with escapes: a map of json.RawMessage would be the body once more.
func Members(text []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for at, rest := range values(text, '{') {
			name, err := jsonText(at)
			value := bytes.TrimLeft(rest, " \t\r\n")
			if err != nil || len(value) == 0 || value[0] != ':' {
				return
			}
			value = bytes.TrimLeft(value[1:], " \t\r\n")
			if !yield(name, value[:valueLength(value)]) {
				return
			}
		}
	}
}

// Elements are the values of a JSON array as Members' are.
func Elements(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for value := range values(text, '[') {
			if !yield(value) {
				return
			}
		}
	}
}

// Texts reads a string or an array of strings, of which there may be so many; more reports that there are more, of which no text is made. ok is false if it is something else.
func Texts(text []byte, most int) (texts []string, more, ok bool) {
	if text = bytes.TrimLeft(text, " \t\r\n"); len(text) == 0 {
		return nil, false, false
	}
	if text[0] != '[' {
		one, err := jsonText(text)
		return []string{one}, false, err == nil
	}
	n := 0
	for range Elements(text) {
		if n++; n > most {
			return nil, true, true
		}
	}
	texts = make([]string, 0, n)
	for x := range Elements(text) {
		one, err := jsonText(x)
		if err != nil {
			return nil, false, false
		}
		texts = append(texts, one)
	}
	return texts, false, true
}

// values are the first values of an array's elements or of an object's members, that is their names, with what is behind each.
func values(text []byte, open byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(value, rest []byte) bool) {
		text = bytes.TrimLeft(text, " \t\r\n")
		if len(text) == 0 || text[0] != open {
			return
		}
		for text = text[1:]; ; {
			if text = bytes.TrimLeft(text, " \t\r\n,"); len(text) == 0 || text[0] == ']' || text[0] == '}' {
				return
			}
			n := valueLength(text)
			if !yield(text[:n], text[n:]) {
				return
			}
			if text = bytes.TrimLeft(text[n:], " \t\r\n"); len(text) > 0 && text[0] == ':' {
				text = bytes.TrimLeft(text[1:], " \t\r\n")
				text = text[valueLength(text):]
			}
		}
	}
}

// valueLength is the length of the JSON value at the beginning of a text that is valid from there on; of any other it is at most the text's length, and 1 or more if it is not empty.
func valueLength(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			if i += stringLength(text[i:]) - 1; depth == 0 {
				return i + 1
			}
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			} else if depth < 0 { // it closes what the value is in
				return max(i, 1)
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return max(i, 1)
			}
		}
	}
	return len(text)
}

// stringLength is the length of the JSON string at the beginning of a text.
func stringLength(text []byte) int {
	for end := 1; ; end++ {
		i := bytes.IndexByte(text[end:], '"')
		if i < 0 {
			return len(text)
		}
		end += i
		if escapes := len(text[:end]) - len(bytes.TrimRight(text[:end], `\`)); escapes%2 == 0 {
			return end + 1
		}
	}
}

// jsonText is a JSON string as text; null is "".
func jsonText(text []byte) (string, error) {
	if n := len(text); n >= 2 && text[0] == '"' && bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		return string(text[1 : n-1]), nil
	}
	var s string
	err := json.Unmarshal(text, &s)
	return s, err
}
