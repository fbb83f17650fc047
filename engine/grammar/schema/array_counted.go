package schema

import (
	"slices"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// contained is a contains with its bounds.
type contained struct {
	part        int // which part has it
	schema      *jsonValue
	least, most int // most < 0: any number
}

// containsBounds is how many items of an array have to match a schema's contains.
func containsBounds(s *jsonValue) (least, most int) {
	least, most = 1, -1
	if v := s.get("minContains"); v != nil {
		least = countOf(v)
	}
	if v := s.get("maxContains"); v != nil {
		most = countOf(v)
	}
	return least, most
}

// containing lists the contains of parts that say something: also which items unevaluatedItems leaves alone.
func containing(parts []part) (all []contained) {
	for i, p := range parts {
		if s := p.get("contains"); s != nil {
			least, most := containsBounds(p.jsonValue)
			if least > 0 || most >= 0 || p.scope > 0 || p.get("unevaluatedItems") != nil {
				all = append(all, contained{i, s, least, most})
			}
		}
	}
	return all
}

// maxCounted bounds how many contains are followed at a time: an item matches any subset of them. maxValues bounds the values that
// items which differ are chosen of; where there are more than maxUnordered, they are written in the order in which they are listed.
const (
	maxCounted   = 3
	maxValues    = 1000
	maxUnordered = 8
)

// arrayState is what has been written of an array whose items are counted or differ.
type arrayState struct {
	place  int // items, up to the number that is told apart
	counts [maxCounted]int
	used   int // if items differ: a bit for each value, or in order how many may not come any more
}

// countedArray is the language of arrays that contain something, or whose items differ. Its graph has a node for every state.
func (c *compiler) countedArray(f *facts, counted []contained, n int) (syntax.Expr, error) {
	if len(counted) > maxCounted {
		return nil, c.cannot(counted[maxCounted].schema, "more than %d contains at a time cannot be enforced", maxCounted)
	}
	last := max(n, f.items.min, f.items.max)
	if last > maxPlaces {
		return nil, c.cannot(f.keyword(lengthKeyword(counted)), "together with so many items it takes more than %d states", maxPlaces)
	}
	w := &countedWalk{c: c, f: f, counted: counted, last: last, n: n, moves: map[int][]itemMove{}, values: map[string]int{}}
	for place := 0; place <= n; place++ { // all values are known then
		if _, err := w.at(place); err != nil {
			return nil, err
		}
	}
	states := []arrayState{{}}
	index := map[arrayState]int{{}: 0}
	g := syntax.Graph{Final: []bool{false, true}} // the start, the end, and a node for each other state
	node := func(state int) int {
		if state == 0 {
			return 0
		}
		return state + 1
	}
	for i := 0; i < len(states); i++ {
		s := states[i]
		if len(states) > maxPlaces {
			return nil, c.cannot(f.keyword(lengthKeyword(counted)), "it takes more than %d states", maxPlaces)
		}
		if w.complete(s) {
			g.Arcs = append(g.Arcs, syntax.GraphArc{From: node(i), To: 1, X: c.closing(s.place, "]")})
		}
		if f.items.max >= 0 && s.place >= f.items.max {
			continue
		}
		moves, err := w.at(min(s.place, n))
		if err != nil {
			return nil, err
		}
		if err := c.look(len(moves)); err != nil {
			return nil, err
		}
		for _, m := range moves {
			next, ok := w.after(s, m)
			if !ok {
				continue
			}
			to, known := index[next]
			if !known {
				to = len(states)
				index[next] = to
				states = append(states, next)
				g.Final = append(g.Final, false)
			}
			g.Arcs = append(g.Arcs, syntax.GraphArc{From: node(i), To: node(to), X: syntax.Seq{c.comma(s.place), m.item}})
		}
	}
	return syntax.Seq{syntax.Text("["), g}, nil
}

// lengthKeyword is what is left out where an array takes too many states.
func lengthKeyword(counted []contained) string {
	if len(counted) > 0 {
		return "contains"
	}
	return "uniqueItems"
}

// itemMove is a way to write an item.
type itemMove struct {
	item    syntax.Expr
	matches []bool // by contains: it counts
	value   int    // the value's number, if items differ
}

// countedWalk finds the moves of countedArray.
type countedWalk struct {
	c       *compiler
	f       *facts
	counted []contained
	n, last int
	moves   map[int][]itemMove // by place
	values  map[string]int     // the values of items that differ
}

// complete reports whether an array may end.
func (w *countedWalk) complete(s arrayState) bool {
	for i, k := range w.counted {
		if s.counts[i] < k.least {
			return false
		}
	}
	return s.place >= w.f.items.min
}

// after is the state behind another item.
func (w *countedWalk) after(s arrayState, m itemMove) (arrayState, bool) {
	s.place = min(s.place+1, w.last)
	for i, k := range w.counted {
		if !m.matches[i] {
			continue
		}
		if k.most >= 0 && s.counts[i] == k.most {
			return s, false
		}
		s.counts[i] = min(s.counts[i]+1, max(k.least, k.most))
	}
	if w.f.unique {
		return w.use(s, m.value)
	}
	return s, true
}

// use marks a value as written.
func (w *countedWalk) use(s arrayState, value int) (arrayState, bool) {
	if len(w.values) > maxUnordered {
		was := s.used
		s.used = value + 1
		return s, value >= was
	}
	was := s.used
	s.used |= 1 << value
	return s, s.used != was
}

// at lists the moves at a place: for every subset of the contains, the items that match it. What does not match is only kept apart
// where too many may match.
func (w *countedWalk) at(place int) ([]itemMove, error) {
	if all, ok := w.moves[place]; ok {
		return all, nil
	}
	if place == w.n {
		place = maxPlaces // beyond all that are told apart
	}
	var all []itemMove
	for subset := range 1 << len(w.counted) {
		matches := make([]bool, len(w.counted))
		matched := map[int]bool{}
		var more []part
		for i, k := range w.counted {
			matches[i] = subset>>i&1 == 1
			matched[k.part] = matched[k.part] || matches[i]
			switch {
			case matches[i]:
				more = append(more, part{jsonValue: k.schema})
			case k.most >= 0:
				no, err := w.c.negate(k.schema)
				if err != nil {
					return nil, w.c.cannotAs(k.schema, err)
				}
				more = append(more, part{jsonValue: no})
			}
		}
		moves, err := w.items(slices.Concat(w.c.itemParts(w.f.parts, place, matched), more), matches)
		if err != nil {
			return nil, err
		}
		all = append(all, moves...)
	}
	w.moves[min(place, w.n)] = all
	return all, nil
}

// items is the moves by items that satisfy parts: one, or one for each value where items differ.
func (w *countedWalk) items(parts []part, matches []bool) ([]itemMove, error) {
	if !w.f.unique {
		item, err := w.c.schema(parts)
		return []itemMove{{item: item, matches: matches}}, err
	}
	at := w.f.keyword("uniqueItems")
	values, ok, err := w.c.finite(parts, maxValues)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, w.c.cannot(at, "that all items differ cannot be enforced unless they are values of an enum; leave it out")
	}
	var moves []itemMove
	for _, v := range values {
		name := v.canonical()
		if _, known := w.values[name]; !known {
			if len(w.values) == maxValues {
				return nil, w.c.cannot(at, "that all items differ cannot be enforced for more than %d values", maxValues)
			}
			w.values[name] = len(w.values)
		}
		moves = append(moves, itemMove{item: w.c.literal(v), matches: matches, value: w.values[name]})
	}
	return moves, nil
}
