package jinja

import "slices"

// The scoping rules. Upstream compiles a template to Python functions, one for the template and one for each macro, call
// block, recursive loop, loop test and block, and its scopes to variables in them; which name means which variable
// follows from an analysis before anything runs (jinja2.idtracking). The same analysis is made here, so that a name
// means here what it means there, in odd cases too: a macro sees the value that an outer variable has when it is
// called; a name set in one branch of an if is looked up in the context when the other branch was taken.

// function is what becomes one activation record (frame) each time it is called.
type function struct {
	parent *function // the function around it, whose variables it sees
	slots  int
}

// symbols are the names of one scope, or of one branch of an if in it.
type symbols struct {
	fn     *function
	parent *symbols // the scope around this one
	base   *symbols // of a branch: the scope, or the branch, that it is in
	refs   map[string]*variable
	loads  []*variable // those with a source, in order of definition
	from   map[*variable]source
	stores map[string]bool
	owner  *symbols // the scope itself, also of a branch
	vars   map[string]*variable
}

// variable is one name in one scope: one slot of the scope's function.
type variable struct {
	name string
	slot int
	fn   *function
}

// source says where a variable's value comes from when its scope is entered.
type source struct {
	kind  sourceKind
	outer *variable // of an alias
}

type sourceKind uint8

const (
	fromNothing sourceKind = iota // unset until assigned
	fromCaller                    // a parameter: set before the scope is entered
	fromContext                   // looked up by name in the render context
	fromOuter                     // copied from the variable of the same name around the scope
)

func newSymbols(fn *function, parent *symbols) *symbols {
	s := &symbols{fn: fn, parent: parent}
	s.owner = s
	return s
}

// branch starts the symbols of one branch of an if.
func (s *symbols) branch() *symbols {
	return &symbols{fn: s.fn, parent: s.parent, base: s, owner: s.owner}
}

// own finds a name defined in this scope itself.
func (s *symbols) own(name string) *variable {
	for ; s != nil; s = s.base {
		if v := s.refs[name]; v != nil {
			return v
		}
	}
	return nil
}

// find finds a name in this scope and those around it.
func (s *symbols) find(name string) *variable {
	for ; s != nil; s = s.parent {
		if v := s.own(name); v != nil {
			return v
		}
	}
	return nil
}

func (s *symbols) stored(name string) bool {
	for ; s != nil; s = s.base {
		if s.stores[name] {
			return true
		}
	}
	return false
}

func (s *symbols) define(name string, src source) *variable {
	v := s.owner.vars[name]
	if v == nil {
		v = &variable{name: name, slot: s.fn.slots, fn: s.fn}
		s.fn.slots++
		put(&s.owner.vars, name, v)
	}
	put(&s.refs, name, v)
	s.setSource(v, src)
	return v
}

func (s *symbols) setSource(v *variable, src source) {
	if _, known := s.from[v]; !known {
		s.loads = append(s.loads, v)
	}
	put(&s.from, v, src)
}

// put makes a map when it gets its first entry: most branches of ifs never do.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

func (s *symbols) declareParameter(name string) *variable {
	put(&s.stores, name, true)
	return s.define(name, source{kind: fromCaller})
}

func (s *symbols) load(name string) {
	if s.find(name) == nil {
		s.define(name, source{kind: fromContext})
	}
}

func (s *symbols) store(name string) {
	put(&s.stores, name, true)
	if s.own(name) != nil {
		return
	}
	if outer := s.parent.find(name); outer != nil {
		s.define(name, source{fromOuter, outer})
		return
	}
	s.define(name, source{kind: fromNothing})
}

// merge takes in the branches of an if. A name that only branches assign starts as what it is outside.
func (s *symbols) merge(branches ...*symbols) {
	var assigned []string
	for _, b := range branches {
		for name := range b.stores {
			if !s.stored(name) {
				assigned = append(assigned, name)
			}
		}
	}
	slices.Sort(assigned)
	for _, b := range branches {
		for name, v := range b.refs {
			put(&s.refs, name, v)
		}
		for _, v := range b.loads {
			s.setSource(v, b.from[v])
		}
		for name := range b.stores {
			put(&s.stores, name, true)
		}
	}
	for _, name := range slices.Compact(assigned) {
		v := s.find(name)
		if outer := s.parent.find(name); outer != nil {
			s.setSource(v, source{fromOuter, outer})
		} else {
			s.setSource(v, source{kind: fromContext})
		}
	}
}

// visit records what a statement or expression does to the names of the scope it stands in, not of those it opens.
func (s *symbols) visit(n node) *symbols {
	switch n := n.(type) {
	case *nameExpr:
		switch n.use {
		case param:
			s.declareParameter(n.name)
		case store:
			s.store(n.name)
		default:
			s.load(n.name)
		}
	case *nsExpr:
		s.load(n.name.name)
	case *ifStmt:
		s.visit(n.test)
		then, elifs, orElse := s.branch(), s.branch(), s.branch()
		then.visitAll(n.body.children())
		for _, e := range n.elifs {
			elifs.visit(e)
		}
		orElse.visitAll(n.orElse.children())
		s.merge(then, elifs, orElse)
	case *macroStmt:
		s.store(n.name)
	case *setStmt:
		s.visit(n.value).visit(n.target)
	case *forStmt:
		s.visit(n.iter)
	case *callStmt:
		if n.call != nil {
			s.visit(n.call)
		}
	case *filterStmt:
		s.visit(n.filter)
	case *withStmt:
		s.visitAll(n.values.children())
	case *setBlockStmt:
		s.visit(n.target)
	default:
		s.visitAll(n.children())
	}
	return s
}

func (s *symbols) visitAll(list []node) {
	for _, n := range list {
		s.visit(n)
	}
}
