package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// str is str(v): what {{ v }} prints.
func (r *render) str(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case Markup:
		return string(v), nil
	case *undefined:
		return "", nil
	}
	return r.repr(v)
}

// repr is repr(v).
func (r *render) repr(v any) (string, error) {
	w := &reprWriter{r: r}
	err := w.value(v, 0)
	return w.b.String(), err
}

// reprWriter writes values as Python source.
type reprWriter struct {
	r *render
	b strings.Builder
}

func (w *reprWriter) put(s string) error {
	w.b.WriteString(s)
	return w.r.grow(len(s))
}

func (w *reprWriter) value(v any, depth int) error {
	if depth > maxData {
		return failKind(Limit, "a value nests too deep to be printed")
	}
	if err := w.r.step(1); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		return w.put(quote(v))
	case Markup:
		return w.put("Markup(" + quote(string(v)) + ")")
	case *List:
		return w.items("[", v.items, "]", depth)
	case *Tuple:
		end := ")"
		if len(v.items) == 1 {
			end = ",)"
		}
		return w.items("(", v.items, end, depth)
	case *Map:
		return w.entries(v, depth)
	case *dictView:
		return w.view(v, depth)
	case *namespace:
		if err := w.put("<Namespace "); err != nil {
			return err
		}
		if err := w.entries(v.attrs, depth+1); err != nil {
			return err
		}
		return w.put(">")
	case *loopState:
		n, err := v.length(w.r)
		if err != nil {
			return err
		}
		return w.put(fmt.Sprintf("<LoopContext %d/%d>", v.index0+1, n))
	}
	return w.put(simpleRepr(v))
}

// simpleRepr is repr of what has no parts. Python prints the address of some; nothing can depend on that.
func simpleRepr(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int64:
		return strconv.FormatInt(v, 10)
	case *big.Int:
		return v.String()
	case float64:
		return floatRepr(v)
	case *undefined:
		return "Undefined"
	case *rangeValue:
		if v.step != 1 {
			return fmt.Sprintf("range(%d, %d, %d)", v.from, v.to, v.step)
		}
		return fmt.Sprintf("range(%d, %d)", v.from, v.to)
	case *macro:
		if v.def.name == "" {
			return "<Macro anonymous>"
		}
		return "<Macro " + quote(v.def.name) + ">"
	case *builtin:
		if v.name == "dict" {
			return "<class 'dict'>"
		}
		return "<function " + v.name + ">"
	case *boundMethod:
		return "<built-in method " + v.name + " of " + typeName(v.recv) + " object>"
	}
	return "<" + typeName(v) + " object>"
}

func (w *reprWriter) items(open string, items []any, end string, depth int) error {
	if err := w.put(open); err != nil {
		return err
	}
	for i, item := range items {
		if i > 0 {
			if err := w.put(", "); err != nil {
				return err
			}
		}
		if err := w.value(item, depth+1); err != nil {
			return err
		}
	}
	return w.put(end)
}

func (w *reprWriter) entries(m *Map, depth int) error {
	if err := w.put("{"); err != nil {
		return err
	}
	for i, k := range m.keys {
		if i > 0 {
			if err := w.put(", "); err != nil {
				return err
			}
		}
		if err := w.value(k, depth+1); err != nil {
			return err
		}
		if err := w.put(": "); err != nil {
			return err
		}
		if err := w.value(m.values[i], depth+1); err != nil {
			return err
		}
	}
	return w.put("}")
}

func (w *reprWriter) view(v *dictView, depth int) error {
	items := make([]any, v.m.Len())
	for i := range items {
		items[i] = v.at(i)
	}
	return w.items("dict_"+v.kind+"([", items, "])", depth)
}

// floatRepr is the shortest text that reads back as f, with an exponent below 1e-4 and from 1e16 on.
func floatRepr(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	e := strconv.FormatFloat(f, 'e', -1, 64)
	exp, _ := strconv.Atoi(e[strings.IndexByte(e, 'e')+1:])
	if exp < -4 || exp >= 16 {
		return e
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// quote is repr of a str: in single quotes, unless it has some and no double ones.
func quote(s string) string {
	q := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	var b strings.Builder
	b.WriteRune(q)
	for _, c := range s {
		switch {
		case c == q || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x80:
			b.WriteString(`\x` + hex(c, 2))
		default:
			b.WriteString(`\` + asciiEscape(c))
		}
	}
	b.WriteRune(q)
	return b.String()
}
