package schema

import "slices"

// unevaluatedProperties and unevaluatedItems speak of what no other schema at the same place has looked at: the schema's own
// keywords and those of the schemas it applies to the same value. Once references are followed and options chosen, these are parts
// whose scopes say under which schemas with such a keyword they stand. Only the options chosen count, so a property that only
// another option of anyOf would have looked at is not written.

// scope is a schema with an unevaluated keyword, and the scope that it stands in itself.
type scope struct {
	above int
	owner *jsonValue
}

// child is a schema that p applies to the same value.
func (c *compiler) child(p part, v *jsonValue) part {
	q := part{jsonValue: v, scope: p.scope, quiet: p.quiet}
	if p.get("unevaluatedProperties") == nil && p.get("unevaluatedItems") == nil {
		return q
	}
	s := scope{p.scope, p.jsonValue}
	at := slices.Index(c.scopes, s)
	if at < 0 {
		at = len(c.scopes)
		c.scopes = append(c.scopes, s)
	}
	q.scope = at + 1 // 0 is none
	return q
}

// within reports whether q is p, or a schema that p applies to the same value, and what it looks at counts.
func (c *compiler) within(q, p part) bool {
	if q.quiet {
		return false
	}
	if q.jsonValue == p.jsonValue && q.scope == p.scope {
		return true
	}
	for at := q.scope; at > 0; at = c.scopes[at-1].above {
		if c.scopes[at-1] == (scope{p.scope, p.jsonValue}) {
			return true
		}
	}
	return false
}
