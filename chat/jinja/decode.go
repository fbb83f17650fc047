package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
)

// DecodeJSON decodes one JSON value as Python's json.loads does: objects become *Map with their keys in order, arrays
// *List, numbers without fraction and exponent int64 (or *big.Int), other numbers float64.
func DecodeJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decodeValue(d, 0)
	if err == nil {
		if _, extra := d.Token(); extra != io.EOF {
			err = errors.New("there is more after the value")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("chat: JSON at byte %d: %w", d.InputOffset(), err)
	}
	return v, nil
}

func decodeValue(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if depth > maxData {
		return nil, fmt.Errorf("lists and objects nest more than %d deep", maxData)
	}
	switch t := t.(type) {
	case json.Number:
		return decodeNumber(string(t))
	case json.Delim:
		if t == '{' {
			return decodeObject(d, depth)
		}
		list := NewList()
		for d.More() {
			v, err := decodeValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list.Append(v)
		}
		_, err := d.Token()
		return list, err
	}
	return t, nil // nil, a bool or a string
}

func decodeObject(d *json.Decoder, depth int) (any, error) {
	m := NewMap()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := decodeValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		m.Set(key.(string), v)
	}
	_, err := d.Token()
	return m, err
}

func decodeNumber(s string) (any, error) {
	if strings.ContainsAny(s, ".eE") {
		f, _ := strconv.ParseFloat(s, 64) // beyond range it is infinite, as in Python
		return f, nil
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i, nil
	}
	if len(s) > maxIntBits/4 {
		return nil, fmt.Errorf("an integer of %d digits is too long", len(s))
	}
	i, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return nil, fmt.Errorf("%q is not a number", s)
	}
	return i, nil
}
