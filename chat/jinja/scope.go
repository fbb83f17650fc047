package jinja

// frame is an activation record: the variables of one call of a function. A nil-interface slot cannot be told from None,
// so a variable that is not set holds missing.
type frame struct {
	slots   []any
	up      *frame // of the function around, as it was when this one was defined
	context *Map   // the variables that the template is given
}

// missing is what an unset variable, and an argument not given, holds.
type missingValue struct{}

var missing any = missingValue{}

func newFrame(fn *function, up *frame) *frame {
	f := &frame{slots: make([]any, fn.slots), up: up}
	if up != nil {
		f.context = up.context
	}
	for i := range f.slots {
		f.slots[i] = missing
	}
	return f
}

// ref is a variable as seen from a function: so many functions out, that slot.
type ref struct{ out, slot int }

func (f *frame) get(v ref) any {
	for n := v.out; n > 0; n-- {
		f = f.up
	}
	return f.slots[v.slot]
}

// scope is what entering and leaving a scope does to its frame.
type scope struct {
	loads []entryLoad
	slots []int // all variables, to be unset on leaving: a macro that outlives a loop does not see its variables
}

// entryLoad gives a variable its first value: a copy of an outer variable, or what the context has under its name.
type entryLoad struct {
	slot  int
	outer *ref
	name  string
	unset bool
}

func (s *scope) enter(f *frame) {
	for _, l := range s.loads {
		switch {
		case l.outer != nil:
			f.slots[l.slot] = f.get(*l.outer)
		case l.unset:
			f.slots[l.slot] = missing
		default:
			f.slots[l.slot] = lookup(f.context, l.name)
		}
	}
}

func (s *scope) leave(f *frame) {
	for _, slot := range s.slots {
		f.slots[slot] = missing
	}
}

// target is where an assignment puts a value: into a variable, a namespace's attribute, or one by one into items.
type target struct {
	slot  int
	ns    *nsExpr
	items []target
	tuple bool
}

func (t *target) assign(r *render, f *frame, v any) error {
	switch {
	case t.tuple:
		return t.unpack(r, f, v)
	case t.ns != nil:
		ns := f.get(t.ns.name.ref).(*namespace)
		return ns.attrs.set(r, t.ns.attr, v)
	}
	f.slots[t.slot] = v
	return nil
}

func (t *target) unpack(r *render, f *frame, v any) error {
	next, err := r.iterate(v)
	if err != nil {
		return fail("cannot unpack a value of type %s", typeName(v))
	}
	values := make([]any, 0, len(t.items))
	for {
		item, ok, err := next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if len(values) == len(t.items) {
			return fail("too many values to unpack (expected %d)", len(t.items))
		}
		values = append(values, item)
	}
	if len(values) < len(t.items) {
		return fail("not enough values to unpack (expected %d, got %d)", len(t.items), len(values))
	}
	for i := range t.items {
		if err := t.items[i].assign(r, f, values[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkNamespaces fails when a part of the target that must be a namespace's attribute is not one's.
func (t *target) checkNamespaces(f *frame) error {
	if t.ns != nil {
		if _, ok := f.get(t.ns.name.ref).(*namespace); !ok {
			return fail("cannot set the attribute '%s' of '%s': it is not a namespace", t.ns.attr, t.ns.name.name)
		}
	}
	for i := range t.items {
		if err := t.items[i].checkNamespaces(f); err != nil {
			return err
		}
	}
	return nil
}
