package task

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hellaSwag is a line of HellaSwag's files (Zellers et al. 2019, github.com/rowanz/hellaswag, and the hub's).
type hellaSwag struct {
	Activity string          `json:"activity_label"`
	A        string          `json:"ctx_a"`
	B        string          `json:"ctx_b"`
	Endings  []string        `json:"endings"`
	Label    json.RawMessage `json:"label"` // a number or, on the hub, a string with one
}

// readHellaSwag reads JSON lines, or the text of six lines a question that llama-perplexity takes: context, number of the right ending, endings.
func readHellaSwag(name string, data []byte) (all []Question, err error) {
	if text := strings.TrimSpace(string(data)); text != "" && text[0] != '{' {
		return readHellaSwagText(name, text)
	}
	err = lines(name, data, func(x *hellaSwag) error {
		right, err := strconv.Atoi(strings.Trim(string(x.Label), `"`))
		if err != nil {
			return fmt.Errorf("label is %s; it must be the number of the right ending, which files of the test split do not have", x.Label)
		}
		q := Question{Context: cleaned(x.Activity + ": " + x.A + " " + capitalised(x.B)), Right: right}
		for _, e := range x.Endings {
			q.Choices = append(q.Choices, " "+cleaned(e))
		}
		all = append(all, q)
		return q.check()
	})
	return all, err
}

func readHellaSwagText(name, text string) (all []Question, err error) {
	rows := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	const lines = 6
	for n := 0; n < len(rows); n += lines {
		if n+lines > len(rows) {
			return nil, fmt.Errorf("%s, line %d: the question has %d lines; %d belong to one: context, number of the right ending, four endings", name, n+1, len(rows)-n, lines)
		}
		right, err := strconv.Atoi(strings.TrimSpace(rows[n+1]))
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %q is to be the number of the right ending, 0 to 3", name, n+2, rows[n+1])
		}
		q := Question{Context: strings.TrimSpace(rows[n]), Right: right}
		for _, e := range rows[n+2 : n+lines] {
			q.Choices = append(q.Choices, " "+strings.TrimSpace(e))
		}
		if err := q.check(); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, n+1, err)
		}
		all = append(all, q)
	}
	return all, nil
}

var bracketed = regexp.MustCompile(`\[.*?\]`)

// cleaned takes WikiHow's markup out.
func cleaned(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), " [title]", ". ")
	return strings.ReplaceAll(bracketed.ReplaceAllString(s, ""), "  ", " ")
}

// capitalised is Python's str.capitalize: the first character in upper case, the others in lower case.
func capitalised(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return ""
	}
	return string(unicode.ToTitle(r)) + strings.ToLower(s[n:])
}
