package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
)

// filterToJSON is transformers' tojson: json.dumps with ensure_ascii off. It does not escape HTML.
func filterToJSON(r *render, value any, a args) (any, error) {
	got, err := a.bind("tojson", 0, "ensure_ascii", "indent", "separators", "sort_keys")
	if err != nil {
		return nil, err
	}
	given := func(v any) bool { return v != missing && truth(v) }
	w := &jsonWriter{r: r, ascii: given(got[0]), sortKeys: given(got[3]), itemSep: ", ", keySep: ": "}
	if got[1] != missing && got[1] != nil {
		w.lines, w.itemSep = true, ","
		if s, ok := text(got[1]); ok {
			w.indent = s
		} else {
			n, err := integerOr(got[1], 0)
			if err != nil {
				return nil, err
			}
			if w.indent, err = r.spaces(n); err != nil {
				return nil, err
			}
		}
	}
	if got[2] != missing && got[2] != nil {
		pair, err := r.items(got[2])
		if err != nil {
			return nil, err
		}
		if len(pair) != 2 {
			return nil, fail("separators must be a pair of texts")
		}
		var ok1, ok2 bool
		w.itemSep, ok1 = text(pair[0])
		w.keySep, ok2 = text(pair[1])
		if !ok1 || !ok2 {
			return nil, fail("separators must be a pair of texts")
		}
	}
	err = w.value(value, 0)
	return w.b.String(), err
}

type jsonWriter struct {
	r               *render
	b               strings.Builder
	ascii, sortKeys bool
	lines           bool   // each item on a line of its own
	indent          string // of one level
	itemSep, keySep string
}

func (w *jsonWriter) put(s string) error {
	w.b.WriteString(s)
	return w.r.grow(len(s))
}

func (w *jsonWriter) value(v any, depth int) error {
	if depth > maxData {
		return failKind(Limit, "a value nests too deep to be written as JSON")
	}
	if err := w.r.step(1); err != nil {
		return err
	}
	if s, ok := text(v); ok {
		return w.put(w.quote(s))
	}
	if s, ok := jsonScalar(v); ok {
		return w.put(s)
	}
	switch v := v.(type) {
	case *List:
		return w.items(v.items, depth)
	case *Tuple:
		return w.items(v.items, depth)
	case *Map:
		return w.object(v, depth)
	}
	return fail("Object of type %s is not JSON serializable", typeName(v))
}

func jsonScalar(v any) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "null", true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case *big.Int:
		return v.String(), true
	case float64:
		switch {
		case math.IsNaN(v):
			return "NaN", true
		case math.IsInf(v, 1):
			return "Infinity", true
		case math.IsInf(v, -1):
			return "-Infinity", true
		}
		return floatRepr(v), true
	}
	return "", false
}

// newline starts a line at a depth, when there are lines.
func (w *jsonWriter) newline(depth int) error {
	if !w.lines {
		return nil
	}
	if err := w.r.growTimes(len(w.indent), depth); err != nil {
		return err
	}
	w.b.WriteString("\n" + strings.Repeat(w.indent, depth))
	return nil
}

func (w *jsonWriter) items(items []any, depth int) error {
	if len(items) == 0 {
		return w.put("[]")
	}
	open := "["
	for _, item := range items {
		if err := w.put(open); err != nil {
			return err
		}
		if err := w.newline(depth + 1); err != nil {
			return err
		}
		if err := w.value(item, depth+1); err != nil {
			return err
		}
		open = w.itemSep
	}
	if err := w.newline(depth); err != nil {
		return err
	}
	return w.put("]")
}

func (w *jsonWriter) object(m *Map, depth int) error {
	if m.Len() == 0 {
		return w.put("{}")
	}
	order := make([]any, m.Len())
	for i := range order {
		order[i] = int64(i)
	}
	if w.sortKeys {
		var err error
		if order, err = w.r.sortBy(order, m.keys, false); err != nil {
			return err
		}
	}
	open := "{"
	for _, i := range order {
		k, v := m.At(int(i.(int64)))
		key, ok := text(k)
		if !ok {
			if key, ok = jsonScalar(k); !ok {
				return fail("keys must be str, int, float, bool or None, not %s", typeName(k))
			}
		}
		if err := w.put(open); err != nil {
			return err
		}
		if err := w.newline(depth + 1); err != nil {
			return err
		}
		if err := w.put(w.quote(key) + w.keySep); err != nil {
			return err
		}
		if err := w.value(v, depth+1); err != nil {
			return err
		}
		open = w.itemSep
	}
	if err := w.newline(depth); err != nil {
		return err
	}
	return w.put("}")
}

// quote writes a JSON string, escaping no more than JSON demands, or all that is not ASCII.
func (w *jsonWriter) quote(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\b':
			b.WriteString(`\b`)
		case c == '\f':
			b.WriteString(`\f`)
		case c < ' ' || w.ascii && c > '~' && c < 0x10000:
			b.WriteString(`\u` + hex(c, 4))
		case w.ascii && c >= 0x10000:
			high, low := utf16.EncodeRune(c)
			b.WriteString(`\u` + hex(high, 4) + `\u` + hex(low, 4))
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
