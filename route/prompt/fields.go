package prompt

import "bytes"

// fields calls each with the name and the value of every field of a JSON object, both as they are written, until the text is none any more.
// What is in values is passed over and not checked.
func fields(b []byte, each func(name, value []byte)) {
	i := space(b, 0)
	if i == len(b) || b[i] != '{' {
		return
	}
	for i++; ; i++ {
		i = space(b, i)
		if i == len(b) || b[i] != '"' {
			return
		}
		end := quoted(b, i)
		if end < 0 {
			return
		}
		name := b[i+1 : end-1]
		i = space(b, end)
		if i == len(b) || b[i] != ':' {
			return
		}
		i = space(b, i+1)
		if end = value(b, i); end < 0 {
			return
		}
		each(name, b[i:end])
		i = space(b, end)
		if i == len(b) || b[i] != ',' {
			return
		}
	}
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// quoted is where the string that begins at i has ended; -1: nowhere.
func quoted(b []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n + 1
		slashes := 0
		for b[i-2-slashes] == '\\' { // the opening quote is before them
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
}

// value is where the value that begins at i has ended; -1: nowhere.
func value(b []byte, i int) int {
	if i == len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return quoted(b, i)
	case '{', '[':
		for depth := 0; i < len(b); i++ {
			switch b[i] {
			case '"':
				if i = quoted(b, i) - 1; i < 0 {
					return -1
				}
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return -1
	}
	start := i
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}
