package schema

import "strconv"

// Schemas that the compiler makes itself, of what a schema means by "not", "if" and the like. They stand for nothing in the
// source, and are named by the place they were made for.

// firstMade is the id of the first schema made; the source has fewer values.
const firstMade = 1 << 30

// made reports whether a value is not of the source.
func (v *jsonValue) made() bool { return v.id >= firstMade || v.id < 0 }

// maker makes values for one place of the source.
type maker struct {
	c  *compiler
	at *jsonValue
}

func (c *compiler) maker(at *jsonValue) maker { return maker{c, at} }

func (m maker) value(kind jsonKind, text string) *jsonValue {
	m.c.lastMade++
	return &jsonValue{kind: kind, id: m.c.lastMade, above: m.at, key: "", text: text}
}

func (m maker) boolean(b bool) *jsonValue { return m.value(jsonBool, strconv.FormatBool(b)) }
func (m maker) text(s string) *jsonValue  { return m.value(jsonString, s) }
func (m maker) count(n int) *jsonValue    { return m.value(jsonNumber, strconv.Itoa(n)) }

// list takes values as they are, of the source too.
func (m maker) list(items ...*jsonValue) *jsonValue {
	v := m.value(jsonArray, "")
	v.items = items
	return v
}

// member is a keyword, or a property, with its value.
type member struct {
	key   string
	value *jsonValue
}

func (m maker) object(members ...member) *jsonValue {
	v := m.value(jsonObject, "")
	for _, x := range members {
		v.keys, v.items = append(v.keys, x.key), append(v.items, x.value)
	}
	return v
}

// typed is a schema of one type with another keyword.
func (m maker) typed(name, key string, value *jsonValue) *jsonValue {
	return m.object(member{"type", m.text(name)}, member{key, value})
}

// texts is a list of strings.
func (m maker) texts(names ...string) *jsonValue {
	v := m.list()
	for _, name := range names {
		v.items = append(v.items, m.text(name))
	}
	return v
}

// either is the schema of what satisfies one of several; none is what nothing satisfies.
func (m maker) either(options []*jsonValue) *jsonValue {
	switch len(options) {
	case 0:
		return m.boolean(false)
	case 1:
		return options[0]
	}
	return m.object(member{"anyOf", m.list(options...)})
}

// both is the schema of what satisfies all of several.
func (m maker) all(schemas ...*jsonValue) *jsonValue {
	return m.object(member{"allOf", m.list(schemas...)})
}

// Keywords that only made schemas have.
const (
	fractional   = "\x00fractional"   // the number is no integer
	otherThan    = "\x00otherThan"    // the string is none of these
	otherPattern = "\x00otherPattern" // the string does not match
)
