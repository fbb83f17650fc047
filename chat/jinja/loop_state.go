package jinja

// loopState is the value of "loop" in a loop.
type loopState struct {
	stmt        *forStmt
	outer       *frame
	items       any // what is looped over, or nil when a test filters it
	next        iterator
	before      any
	current     any
	after       any // the next item, when it has been looked at
	changedFrom any // the arguments of the last call of changed that was true
	index0      int
	depth0      int
	total       int
	counted     bool
}

func (l *loopState) advance() (any, bool, error) {
	item, ok, err := l.after, true, error(nil)
	if item == missing {
		if item, ok, err = l.next(); err != nil || !ok {
			return nil, false, err
		}
	}
	l.after = missing
	l.index0++
	l.before, l.current = l.current, item
	return item, true, nil
}

func (l *loopState) peek() (any, error) {
	if l.after == missing {
		item, ok, err := l.next()
		if err != nil {
			return nil, err
		}
		if ok {
			l.after = item
		}
	}
	return l.after, nil
}

// length counts the items; those of a generator are taken out for that and kept.
func (l *loopState) length(r *render) (int, error) {
	if l.counted {
		return l.total, nil
	}
	l.counted = true
	if l.items != nil {
		n, ok, err := r.length(l.items)
		if err != nil || ok {
			l.total = n
			return n, err
		}
	}
	rest, err := r.collect(l.next)
	if err != nil {
		return 0, err
	}
	l.next = sliceIterator(rest)
	l.total = len(rest) + l.index0 + 1
	if l.after != missing {
		l.total++
	}
	return l.total, nil
}

// attribute gives loop.name.
func (l *loopState) attribute(r *render, name string) (any, bool, error) {
	number := func(n int, err error) (any, bool, error) { return int64(n), true, err }
	switch name {
	case "index":
		return number(l.index0+1, nil)
	case "index0":
		return number(l.index0, nil)
	case "depth":
		return number(l.depth0+1, nil)
	case "depth0":
		return number(l.depth0, nil)
	case "first":
		return l.index0 == 0, true, nil
	case "last":
		item, err := l.peek()
		return item == missing, true, err
	case "length", "revindex", "revindex0":
		n, err := l.length(r)
		switch name {
		case "revindex":
			n -= l.index0
		case "revindex0":
			n -= l.index0 + 1
		}
		return number(n, err)
	case "previtem":
		if l.index0 == 0 {
			return &undefined{reason: "there is no previous item"}, true, nil
		}
		return l.before, true, nil
	case "nextitem":
		item, err := l.peek()
		if item == missing {
			item = &undefined{reason: "there is no next item"}
		}
		return item, true, err
	case "cycle":
		return &boundMethod{l, name, loopCycle}, true, nil
	case "changed":
		return &boundMethod{l, name, loopChanged}, true, nil
	}
	return nil, false, nil
}

func loopCycle(r *render, recv any, a args) (any, error) {
	if err := a.noKeywords("cycle"); err != nil {
		return nil, err
	}
	if len(a.pos) == 0 {
		return nil, fail("loop.cycle() needs something to cycle through")
	}
	return a.pos[recv.(*loopState).index0%len(a.pos)], nil
}

func loopChanged(r *render, recv any, a args) (any, error) {
	if err := a.noKeywords("changed"); err != nil {
		return nil, err
	}
	l, now := recv.(*loopState), &Tuple{items: a.pos}
	same, err := r.equal(l.changedFrom, now)
	if err != nil || same {
		return false, err
	}
	l.changedFrom = now
	return true, nil
}

// call is loop(items): the recursive loop over other items.
func (l *loopState) call(r *render, a args) (any, error) {
	got, err := a.bind("loop", 1, "iterable")
	if err != nil {
		return nil, err
	}
	if !l.stmt.recursive {
		return nil, fail("a loop must have the 'recursive' marker to be called")
	}
	return l.stmt.recurse(r, l.outer, got[0], l.depth0+1)
}
