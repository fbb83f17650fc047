package api

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// maxNumbers bounds how many fields of a body are read as the numbers they are meant to be.
const maxNumbers = 20

// unmarshal is json.Unmarshal which takes whole numbers written as 5.0 and numbers written as "5", as some clients do, in the
// fields of objects. It returns the body as it was understood.
func unmarshal(body []byte, v any) ([]byte, error) {
	for range maxNumbers {
		err := json.Unmarshal(body, v)
		var kind *json.UnmarshalTypeError
		if !errors.As(err, &kind) {
			return body, err
		}
		changed, ok := withNumber(body, strings.Split(fieldName(kind.Field, v), "."), kind.Type)
		if !ok {
			return body, err
		}
		body = changed
	}
	return body, json.Unmarshal(body, v)
}

// withNumber is an object in which the field at a path is written as a number of a type; ok is false if it is none.
func withNumber(object []byte, path []string, t reflect.Type) (changed []byte, ok bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil || fields[path[0]] == nil {
		return nil, false
	}
	value := fields[path[0]]
	if len(path) > 1 {
		value, ok = withNumber(value, path[1:], t)
	} else {
		value, ok = number(value, t)
	}
	if !ok {
		return nil, false
	}
	fields[path[0]] = value
	changed, err := json.Marshal(fields)
	return changed, err == nil
}

// number is a JSON number or string as a number of a type.
func number(value json.RawMessage, t reflect.Type) (json.RawMessage, bool) {
	text := string(value)
	if json.Unmarshal(value, &text) == nil && !json.Valid([]byte(text)) {
		return nil, false
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, false
	}
	switch t.Kind() {
	case reflect.Float64:
		return json.RawMessage(text), text != string(value)
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64:
		const exact = 1 << 53
		if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
			return json.RawMessage(strconv.FormatInt(whole, 10)), text != string(value)
		}
		return json.RawMessage(strconv.FormatInt(int64(x), 10)), x == math.Trunc(x) && math.Abs(x) < exact
	}
	return nil, false
}
