package schema

import (
	"net/url"
	"strconv"
	"strings"
)

// flatten follows the $ref and allOf of parts, to all schemas that have to be satisfied. Those without other
// keywords are left out.
func (c *compiler) flatten(parts []part) ([]part, error) {
	f := flattening{c: c, seen: map[part]bool{}, open: map[*jsonValue]bool{}}
	for _, p := range parts {
		if err := f.visit(p); err != nil {
			return nil, err
		}
	}
	return f.out, nil
}

type flattening struct {
	c    *compiler
	seen map[part]bool
	open map[*jsonValue]bool // the schemas being followed
	out  []part
}

func (f *flattening) visit(p part) error {
	if f.open[p.jsonValue] {
		return errAt(p.jsonValue, "it refers to itself with nothing in between")
	}
	if f.seen[p] {
		return nil
	}
	f.seen[p] = true
	if err := f.c.look(1); err != nil {
		return err
	}
	if err := f.c.check(p.jsonValue); err != nil {
		return err
	}
	if p.kind == jsonBool {
		if p.isFalse() {
			f.out = append(f.out, p)
		}
		return nil
	}
	f.open[p.jsonValue] = true
	defer delete(f.open, p.jsonValue)
	if r := p.get("$ref"); r != nil && !p.followed {
		target, err := f.c.resolve(r)
		if err != nil {
			return err
		}
		if err := f.visit(part{jsonValue: target}); err != nil {
			return err
		}
	}
	if all := p.get("allOf"); all != nil && !p.followed {
		for _, s := range all.items {
			if err := f.visit(part{jsonValue: s}); err != nil {
				return err
			}
		}
	}
	p.followed = true
	if p.says() {
		f.out = append(f.out, p)
	}
	return nil
}

// says reports whether a part has keywords beyond those that flatten and choice follow.
func (p part) says() bool {
	for _, k := range p.keys {
		switch k {
		case "anyOf":
			if !p.anyOf {
				return true
			}
		case "oneOf":
			if !p.oneOf {
				return true
			}
		case "$ref", "allOf":
		default:
			if !keywords[k].silent {
				return true
			}
		}
	}
	return false
}

// resolve returns the schema that a $ref names by a pointer within the document.
func (c *compiler) resolve(r *jsonValue) (*jsonValue, error) {
	pointer, ok := strings.CutPrefix(r.text, "#")
	if !ok || pointer != "" && pointer[0] != '/' {
		return nil, errAt(r, "the reference %.80q leads out of the schema or to a name; only pointers such as \"#/$defs/node\" are followed", r.text)
	}
	pointer, err := url.PathUnescape(pointer)
	if err != nil {
		return nil, errAt(r, "the reference %.80q has a broken %% escape", r.text)
	}
	v := c.root
	for i, key := range strings.Split(pointer, "/") {
		if i == 0 {
			continue // before the first slash
		}
		next := v.get(pointerUnescape.Replace(key))
		if n, err := strconv.Atoi(key); v.kind == jsonArray && err == nil && n >= 0 && n < len(v.items) {
			next = v.items[n]
		}
		if next == nil {
			return nil, errAt(r, "the reference %.80q leads nowhere", r.text)
		}
		v = next
	}
	return v, nil
}
