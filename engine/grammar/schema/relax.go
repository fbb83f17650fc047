package schema

import (
	"errors"
	"fmt"
)

// unenforced is the error of a keyword that is right and cannot be enforced.
type unenforced struct {
	at *jsonValue // the keyword's value
	error
}

func (u *unenforced) Unwrap() error { return u.error }

// cannot is errAt for a keyword that cannot be enforced, by its value.
func (c *compiler) cannot(v *jsonValue, format string, args ...any) error {
	return &unenforced{v, errAt(v, format, args...)}
}

// cannotKeyword is cannot, with the place of the schema that has the keyword.
func (c *compiler) cannotKeyword(v *jsonValue, format string, args ...any) error {
	at := v
	if v.above != nil {
		at = v.above
	}
	return &unenforced{v, errAt(at, format, args...)}
}

// cannotAs says that a keyword cannot be enforced because of what is in it. Other errors stay what they are.
func (c *compiler) cannotAs(v *jsonValue, err error) error {
	var u *unenforced
	if errors.As(err, &u) {
		return &unenforced{v, err}
	}
	return err
}

// maxLeftOut bounds the keywords that Options.Relax leaves out.
const maxLeftOut = 200

// relax changes a schema so that a keyword which cannot be enforced is left to the writer, and says which; ok is false where
// nothing can be left out.
func relax(at *jsonValue) (note string, ok bool) {
	for at != nil && at.made() {
		at = at.above
	}
	// What is left out within a condition or a negation would change what they mean: they go as a whole.
	for v := at; v != nil; v = v.above {
		if v.key == "not" || v.key == "if" {
			at = v
		}
	}
	for at != nil && at.above != nil && at.above.kind != jsonObject {
		at = at.above
	}
	if at == nil || at.above == nil {
		return "", false
	}
	if at.key == "oneOf" && !at.loose {
		at.loose = true
		return at.where() + " as anyOf", true
	}
	note = at.where()
	at.above.remove(at.key)
	if at.key == "patternProperties" {
		at.above.remove("additionalProperties")
	}
	for v := at.above; v != nil; v = v.above {
		v.cut = true
		if v.key == "oneOf" {
			v.loose = true
		}
	}
	return note, true
}

// remove takes away a member.
func (v *jsonValue) remove(key string) {
	for i, k := range v.keys {
		if k == key {
			v.keys = append(v.keys[:i:i], v.keys[i+1:]...)
			v.items = append(v.items[:i:i], v.items[i+1:]...)
			return
		}
	}
}

// compile reads a schema and gives it to read, again without a keyword where that cannot be enforced, if o allows it.
func compile(schema []byte, o Options, read func(*compiler, []part) error) (notes []string, err error) {
	root, err := readSchema(schema, o)
	if err != nil {
		return nil, err
	}
	for {
		c, parts := newCompiler(root, o)
		err := read(c, parts)
		if err == nil {
			return notes, nil
		}
		var u *unenforced
		if o.Relax && errors.As(err, &u) && len(notes) < maxLeftOut {
			if note, ok := relax(u.at); ok {
				notes = append(notes, note)
				continue
			}
		}
		return nil, fmt.Errorf("grammar: schema at %w", err)
	}
}
