package schema

import (
	"net/url"
	"strconv"
	"strings"
)

// references finds what $ref names: schemas by their $id, $anchor and place.
type references struct {
	root     *jsonValue
	bases    map[*jsonValue]*url.URL // of the schemas with an $id of their own, and of the root
	schemas  map[string]*jsonValue   // by URI, and by URI#anchor
	dynamics map[string]int          // how many schemas have a $dynamicAnchor
	alone    bool                    // $ref stands alone: an $id beside it is nothing, until draft 7
}

// valueKeywords are the keywords whose values are no schemas and contain none.
var valueKeywords = map[string]bool{"const": true, "enum": true, "examples": true, "default": true}

func newReferences(root *jsonValue) *references {
	r := &references{root: root, bases: map[*jsonValue]*url.URL{root: {}}, schemas: map[string]*jsonValue{}, dynamics: map[string]int{}}
	r.schemas[""] = root
	if draft := root.get("$schema"); draft != nil {
		r.alone = strings.Contains(draft.text, "/draft-0")
	}
	r.index(root, &url.URL{})
	return r
}

// index notes the names in a schema, which is read relative to base.
func (r *references) index(v *jsonValue, base *url.URL) {
	if id := v.get("$id"); id != nil && id.kind == jsonString && !(r.alone && v.get("$ref") != nil) {
		if name, ok := strings.CutPrefix(id.text, "#"); ok { // an anchor, until draft 7
			r.schemas[withoutFragment(base)+"#"+name] = v
		} else if own, err := base.Parse(id.text); err == nil {
			base = own
			r.bases[v] = base
			r.schemas[withoutFragment(base)] = v
		}
	}
	for _, key := range []string{"$anchor", "$dynamicAnchor"} {
		if name := v.get(key); name != nil && name.kind == jsonString {
			r.schemas[withoutFragment(base)+"#"+name.text] = v
			if key == "$dynamicAnchor" {
				r.dynamics[name.text]++
			}
		}
	}
	for i, item := range v.items {
		if v.kind == jsonArray || !valueKeywords[v.keys[i]] {
			r.index(item, base)
		}
	}
}

func withoutFragment(u *url.URL) string {
	text, _, _ := strings.Cut(u.String(), "#")
	return text
}

// base is what references in v are relative to.
func (r *references) base(v *jsonValue) *url.URL {
	for ; v != nil; v = v.above {
		if b := r.bases[v]; b != nil {
			return b
		}
	}
	return r.bases[r.root]
}

// resolve returns the schema that a $ref or $dynamicRef names, which must be of the same document.
func (c *compiler) resolve(ref *jsonValue) (*jsonValue, error) {
	r := c.references
	target, err := r.base(ref).Parse(ref.text)
	if err != nil {
		return nil, errAt(ref, "the reference %.80q is no URI", ref.text)
	}
	resource := r.schemas[withoutFragment(target)]
	if resource == nil {
		return nil, c.cannot(ref, "the reference %.80q leads out of the schema", ref.text)
	}
	fragment := target.Fragment
	if fragment != "" && fragment[0] != '/' {
		v := r.schemas[withoutFragment(target)+"#"+fragment]
		switch {
		case v == nil:
			return nil, errAt(ref, "the reference %.80q leads nowhere", ref.text)
		case ref.key == "$dynamicRef" && v.get("$dynamicAnchor") != nil && r.dynamics[fragment] > 1:
			return nil, c.cannot(ref, "several schemas have the $dynamicAnchor %.80q, and which one is meant depends on the value", fragment)
		}
		return v, nil
	}
	v := resource
	for i, key := range strings.Split(fragment, "/") {
		if i == 0 {
			continue // before the first slash
		}
		next := v.get(pointerUnescape.Replace(key))
		if n, err := strconv.Atoi(key); v.kind == jsonArray && err == nil && n >= 0 && n < len(v.items) {
			next = v.items[n]
		}
		if next == nil {
			return nil, errAt(ref, "the reference %.80q leads nowhere", ref.text)
		}
		v = next
	}
	return v, nil
}
