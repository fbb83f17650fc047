package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// maxLine is the longest line that a trace may have, in bytes: prompts of a few million characters.
const maxLine = 32 << 20

// RowError is a row that is not what its format says.
type RowError struct {
	File  string
	Line  int    // from 1
	Field string // "": the row as a whole
	Got   string
	Want  string // what would be accepted
}

// Error implements error.
func (e *RowError) Error() string {
	what := "the row"
	if e.Field != "" {
		what = e.Field
	}
	return fmt.Sprintf("trace: %s, line %d: %s is %s; %s is expected", e.File, e.Line, what, e.Got, e.Want)
}

// format is a kind of file: whether a first line is one of its, and how a row becomes requests.
type format struct {
	name  string
	ours  func(first []byte) bool
	start func(t *Trace)                                // before the first row
	row   func(t *Trace, line []byte, no int) *RowError // adds the requests of a line; the first has number 1
}

// formats are tried in this order.
var formats = []format{azure, mooncake, aibrix}

// Read reads a trace in any of the formats, by its first line. Empty lines do not count.
func Read(name string, r io.Reader) (*Trace, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	t := &Trace{Name: filepath.Base(name)}
	var f *format
	for no := 1; lines.Scan(); no++ {
		line := bytes.TrimSpace(lines.Bytes())
		if no == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(line) == 0 {
			continue
		}
		if f == nil {
			if f = formatOf(line); f == nil {
				return nil, &RowError{File: name, Line: no, Got: quote(line),
					Want: "the header of an Azure trace (TIMESTAMP,ContextTokens,GeneratedTokens) or a JSON object with input_length (Mooncake) or requests (AIBrix)"}
			}
			f.start(t)
		}
		if err := f.row(t, line, no); err != nil {
			err.File, err.Line = name, no
			return nil, err
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("trace: %s has a line of more than %d MiB", name, maxLine>>20)
	} else if err != nil {
		return nil, fmt.Errorf("trace: reading %s: %w", name, err)
	}
	if len(t.Requests) == 0 {
		return nil, fmt.Errorf("trace: %s has no requests", name)
	}
	t.arrange()
	return t, nil
}

func formatOf(line []byte) *format {
	for i := range formats {
		if formats[i].ours(line) {
			return &formats[i]
		}
	}
	return nil
}

// hasField reports whether a line is a JSON object that has one of the fields.
func hasField(line []byte, names ...string) bool {
	var object map[string]json.RawMessage
	if json.Unmarshal(line, &object) != nil {
		return false
	}
	for _, name := range names {
		if _, ok := object[name]; ok {
			return true
		}
	}
	return false
}

// quote shows the start of foreign text.
func quote(text []byte) string {
	const most = 60
	if len(text) > most {
		return strconv.Quote(string(text[:most])) + " …"
	}
	return strconv.Quote(string(text))
}

// prompt checks the length of a prompt that a file gives.
func prompt(field string, n *float64) (int, *RowError) {
	return tokens(field, n, 1)
}

// answer checks the length of an answer. Published traces have answers of 0 tokens; a request asks for 1 at least.
func answer(field string, n *float64) (int, *RowError) {
	length, err := tokens(field, n, 0)
	return max(length, 1), err
}

func tokens(field string, n *float64, least float64) (int, *RowError) {
	want := fmt.Sprintf("a whole number of tokens from %g to %d", least, MaxTokens)
	switch {
	case n == nil:
		return 0, &RowError{Field: field, Got: "missing", Want: want}
	case !(*n >= least && *n <= MaxTokens) || *n != float64(int(*n)):
		return 0, &RowError{Field: field, Got: strconv.FormatFloat(*n, 'g', -1, 64), Want: want}
	}
	return int(*n), nil
}

// milliseconds checks a time that a file gives.
func milliseconds(field string, n *float64) (time.Duration, *RowError) {
	const want = "milliseconds since the trace began, at least 0"
	switch {
	case n == nil:
		return 0, &RowError{Field: field, Got: "missing", Want: want}
	case !(*n >= 0 && *n <= float64(maxTime/time.Millisecond)):
		return 0, &RowError{Field: field, Got: strconv.FormatFloat(*n, 'g', -1, 64), Want: want}
	}
	return time.Duration(*n * float64(time.Millisecond)), nil
}

// parseJSON decodes a row, and names the field that does not fit.
func parseJSON(line []byte, v any) *RowError {
	err := json.Unmarshal(line, v)
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		want := strings.NewReplacer("float64", "a number", "uint64", "a whole number", "string", "a text").Replace(wrong.Type.String())
		return &RowError{Field: wrong.Field, Got: "a JSON " + wrong.Value, Want: want}
	}
	return &RowError{Got: quote(line) + " (" + err.Error() + ")", Want: "a JSON object"}
}
