package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// walker reads JSON token by token, so that a key written twice is seen and nothing unexpected passes. encoding/json's
// maps and structs would keep the last of two keys.
type walker struct{ dec *json.Decoder }

var errUTF8 = errors.New("is not valid UTF-8")

func newWalker(text []byte) (walker, error) {
	if !utf8.Valid(text) {
		return walker{}, errUTF8
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return walker{dec}, nil
}

func (w walker) token() (json.Token, error) {
	t, err := w.dec.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("is not valid JSON at byte %d: %w", w.dec.InputOffset(), err)
	}
	return t, nil
}

func (w walker) delim(want json.Delim, what string) error {
	t, err := w.token()
	if err == nil && t != want {
		err = fmt.Errorf("has %v where %s should begin", t, what)
	}
	return err
}

// object reads {…} and calls field for every key, with the decoder before its value. A key occurs once.
func (w walker) object(what string, field func(key string) error) error {
	if err := w.delim('{', what); err != nil {
		return err
	}
	seen := map[string]bool{}
	for w.dec.More() {
		t, err := w.token()
		if err != nil {
			return err
		}
		key := t.(string) // inside an object the decoder allows nothing else
		if seen[key] {
			return fmt.Errorf("has the key %q twice in %s", key, what)
		}
		seen[key] = true
		if err := field(key); err != nil {
			return err
		}
	}
	_, err := w.token() // the closing brace
	return err
}

func (w walker) str(what string) (string, error) {
	t, err := w.token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", fmt.Errorf("has %v where %s should be a string", t, what)
	}
	return s, nil
}

// ints reads […] of whole numbers that are not negative.
func (w walker) ints(what string) ([]int, error) {
	if err := w.delim('[', what); err != nil {
		return nil, err
	}
	list := []int{}
	for w.dec.More() {
		t, err := w.token()
		if err != nil {
			return nil, err
		}
		number, _ := t.(json.Number)
		n, err := strconv.ParseInt(string(number), 10, strconv.IntSize)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("has %v in %s, which takes whole numbers from 0", t, what)
		}
		list = append(list, int(n))
	}
	_, err := w.token() // the closing bracket
	return list, err
}

// end checks that only white space is left.
func (w walker) end() error {
	if t, err := w.dec.Token(); err != io.EOF {
		return fmt.Errorf("goes on after its end, with %v", t)
	}
	return nil
}
