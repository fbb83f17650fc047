package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// jsonKind is what a JSON value is.
type jsonKind byte

const (
	jsonNull jsonKind = iota
	jsonBool
	jsonNumber
	jsonString
	jsonArray
	jsonObject
)

// jsonValue is a JSON value with its position in the document. Objects keep their order.
type jsonValue struct {
	kind  jsonKind
	id    int // unique within a document
	above *jsonValue
	key   string   // in above
	text  string   // of a string, decoded; of a number, as written; true or false
	keys  []string // of an object, with the items at the same index
	items []*jsonValue
	loose bool // of oneOf: taken as anyOf
	cut   bool // of a schema: something in it was left out
}

// get returns the member of an object, or nil.
func (v *jsonValue) get(key string) *jsonValue {
	for i, k := range v.keys {
		if k == key {
			return v.items[i]
		}
	}
	return nil
}

// isFalse reports whether v is the schema that nothing satisfies.
func (v *jsonValue) isFalse() bool { return v.kind == jsonBool && v.text == "false" }

// where names the value by its JSON pointer from the document's root.
func (v *jsonValue) where() string {
	var path []string
	for ; v.above != nil; v = v.above {
		path = append(path, pointerEscape.Replace(v.key))
	}
	slices.Reverse(path)
	return strings.Join(append([]string{"#"}, path...), "/")
}

// jsonReader turns text into values.
type jsonReader struct {
	*json.Decoder
	values int
}

// readJSON reads one JSON document.
func readJSON(text []byte) (*jsonValue, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not valid UTF-8")
	}
	r := jsonReader{Decoder: json.NewDecoder(bytes.NewReader(text))}
	r.UseNumber()
	v, err := r.value(nil, "", 0)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it ends in the middle")
		}
		return nil, err
	}
	if _, err := r.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("something follows its end at byte %d", r.InputOffset())
	}
	return v, nil
}

func (r *jsonReader) value(above *jsonValue, key string, depth int) (*jsonValue, error) {
	if depth > syntax.MaxNesting {
		return nil, fmt.Errorf("it is nested more than %d deep", syntax.MaxNesting)
	}
	t, err := r.Token()
	if err != nil {
		return nil, err
	}
	r.values++
	v := &jsonValue{id: r.values, above: above, key: key}
	switch t := t.(type) {
	case bool:
		v.kind, v.text = jsonBool, fmt.Sprint(t)
	case json.Number:
		v.kind, v.text = jsonNumber, t.String()
	case string:
		v.kind, v.text = jsonString, t
	case json.Delim:
		if t == '[' {
			v.kind = jsonArray
			err = r.array(v, depth)
		} else {
			v.kind = jsonObject
			err = r.object(v, depth)
		}
	}
	return v, err
}

func (r *jsonReader) array(v *jsonValue, depth int) error {
	for r.More() {
		item, err := r.value(v, strconv.Itoa(len(v.items)), depth+1)
		if err != nil {
			return err
		}
		v.items = append(v.items, item)
	}
	_, err := r.Token() // the ]
	return err
}

func (r *jsonReader) object(v *jsonValue, depth int) error {
	seen := map[string]bool{}
	for r.More() {
		t, err := r.Token()
		if err != nil {
			return err
		}
		key := t.(string)
		if seen[key] {
			return fmt.Errorf("%.200s has the key %.200q twice", v.where(), key)
		}
		seen[key] = true
		item, err := r.value(v, key, depth+1)
		if err != nil {
			return err
		}
		v.keys, v.items = append(v.keys, key), append(v.items, item)
	}
	_, err := r.Token() // the }
	return err
}

// How a key is written in a JSON pointer, and back (RFC 6901).
var (
	pointerEscape   = strings.NewReplacer("~", "~0", "/", "~1")
	pointerUnescape = strings.NewReplacer("~1", "/", "~0", "~")
)
