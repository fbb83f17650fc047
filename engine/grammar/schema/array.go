package schema

import "github.com/ridge-llm/ridge/engine/grammar/syntax"

// maxPlaces bounds the items and properties that a schema distinguishes.
const maxPlaces = 20_000

// array is the language of the arrays that satisfy f: those of prefixItems one by one, then any number of others.
//
//	node 0 ──ws item──► 1 ──, ws item──► 2 … n ──(, ws other){…}──► tail
//	  └── ] ──► end     └── ws ] ──► end                              └── ws ] ──► end
func (c *compiler) array(f *facts) (syntax.Expr, error) {
	if f.items.impossible() {
		return syntax.Alt{}, nil
	}
	n, err := c.toldApart(f)
	if err != nil {
		return nil, err
	}
	if counted := containing(f.parts); len(counted) > 0 || f.unique && f.items.max != 0 && f.items.max != 1 {
		return c.countedArray(f, counted, n)
	}
	other, err := c.schema(c.itemParts(f.parts, maxPlaces, nil))
	if err != nil {
		return nil, err
	}
	tail, end := n+1, n+2
	g := syntax.Graph{Final: make([]bool, n+3)}
	g.Final[end] = true
	for i := range n {
		item, err := c.schema(c.itemParts(f.parts, i, nil))
		if err != nil {
			return nil, err
		}
		if err := c.look(1 + len(f.parts)); err != nil {
			return nil, err
		}
		g.Arcs = append(g.Arcs, syntax.GraphArc{From: i, To: i + 1, X: syntax.Seq{c.comma(i), item}})
		if i >= f.items.min {
			g.Arcs = append(g.Arcs, syntax.GraphArc{From: i, To: end, X: c.closing(i, "]")})
		}
	}
	if n >= f.items.min && n > 0 {
		g.Arcs = append(g.Arcs, syntax.GraphArc{From: n, To: end, X: c.closing(n, "]")})
	}
	others := syntax.Repeat{X: syntax.Seq{c.comma(1), other}, Min: max(f.items.min-n, 1), Max: -1}
	if f.items.max >= 0 {
		others.Max = f.items.max - n
	}
	if n == 0 {
		g.Arcs = append(g.Arcs, syntax.GraphArc{From: 0, To: end, X: c.closing(0, "]")})
	} else if others.Max != 0 {
		g.Arcs = append(g.Arcs, syntax.GraphArc{From: n, To: tail, X: others}, syntax.GraphArc{From: tail, To: end, X: c.closing(1, "]")})
	}
	return syntax.Seq{syntax.Text("["), g}, nil
}

// toldApart is how many items have places of their own; the first one has no comma before it.
func (c *compiler) toldApart(f *facts) (int, error) {
	n := 1
	for _, p := range f.parts {
		prefix, _ := tuple(p.jsonValue)
		n = max(n, len(prefix))
	}
	if f.items.max >= 0 {
		n = min(n, f.items.max)
	}
	if n > maxPlaces {
		return 0, errAt(f.parts[0].jsonValue, "there are more than %d prefixItems", maxPlaces)
	}
	return n, nil
}

// tuple is the schemas of the first items and that of the others, nil if there is none. Until draft 2019-09 they were called items
// and additionalItems.
func tuple(s *jsonValue) (prefix []*jsonValue, rest *jsonValue) {
	items := s.get("items")
	if items != nil && items.kind == jsonArray {
		return items.items, s.get("additionalItems")
	}
	if first := s.get("prefixItems"); first != nil {
		prefix = first.items
	}
	return prefix, items
}

// itemParts is what an array's item has to satisfy. matched says for which parts it is known to match contains.
func (c *compiler) itemParts(parts []part, place int, matched map[int]bool) (all []part) {
	seen := make([]bool, len(parts))
	for i, p := range parts {
		prefix, rest := tuple(p.jsonValue)
		seen[i] = matched[i]
		if place < len(prefix) {
			all, seen[i] = append(all, part{jsonValue: prefix[place]}), true
		} else if rest != nil {
			all, seen[i] = append(all, part{jsonValue: rest}), true
		}
	}
	return append(all, c.unseen("unevaluatedItems", parts, seen)...)
}

// comma stands before an item or property: nothing but white space before the first.
func (c *compiler) comma(place int) syntax.Expr {
	if place == 0 {
		return c.ws
	}
	return syntax.Seq{syntax.Text(","), c.gap}
}

// closing is the bracket behind so many items or properties.
func (c *compiler) closing(places int, bracket string) syntax.Expr {
	if places == 0 {
		return syntax.Text(bracket)
	}
	return syntax.Seq{c.ws, syntax.Text(bracket)}
}
