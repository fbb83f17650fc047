package schema

// flatten follows the $ref, allOf and not of parts, to all schemas that have to be satisfied. Those without other
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
	followed := p.handled&refsFollowed != 0
	if !followed {
		if err := f.follow(p); err != nil {
			return err
		}
	}
	p.handled |= refsFollowed
	if p.says() {
		f.out = append(f.out, p)
	}
	if followed {
		return nil
	}
	return f.rewrite(p)
}

// follow visits the schemas that a part refers to.
func (f *flattening) follow(p part) error {
	for _, key := range []string{"$ref", "$dynamicRef"} {
		r := p.get(key)
		if r == nil {
			continue
		}
		target, err := f.c.resolve(r)
		if err != nil {
			return err
		}
		if err := f.visit(f.c.child(p, target)); err != nil {
			return err
		}
	}
	if all := p.get("allOf"); all != nil {
		for _, s := range all.items {
			if err := f.visit(f.c.child(p, s)); err != nil {
				return err
			}
		}
	}
	return nil
}

// rewrite visits the schemas that say what keywords without rules of their own say.
func (f *flattening) rewrite(p part) error {
	if not := p.get("not"); not != nil {
		n, err := f.c.negate(not)
		if err != nil {
			return f.c.cannotAs(not, err)
		}
		if err := f.visit(f.c.quiet(p, n)); err != nil {
			return err
		}
	}
	for _, s := range f.c.meaning(p) {
		if err := f.visit(f.c.child(p, s)); err != nil {
			return err
		}
	}
	return nil
}

// says reports whether a part has keywords beyond those that flatten and choice follow.
func (p part) says() bool {
	for _, k := range p.keys {
		switch k {
		case "anyOf":
			if p.handled&anyOfChosen == 0 {
				return true
			}
		case "oneOf":
			if p.handled&oneOfChosen == 0 {
				return true
			}
		case "if":
			if p.handled&ifDecided == 0 {
				return true
			}
		case "$ref", "$dynamicRef", "allOf", "not", "then", "else":
		default:
			if !keywords[k].silent {
				return true
			}
		}
	}
	return false
}
