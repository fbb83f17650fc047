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
	n := 1 // items told apart; the first one has no comma before it
	for _, p := range f.parts {
		if prefix := p.get("prefixItems"); prefix != nil {
			n = max(n, len(prefix.items))
		}
	}
	if f.items.max >= 0 {
		n = min(n, f.items.max)
	}
	if n > maxPlaces {
		return nil, errAt(f.parts[0].jsonValue, "there are more than %d prefixItems", maxPlaces)
	}
	other, err := c.schema(itemParts(f.parts, maxPlaces))
	if err != nil {
		return nil, err
	}
	tail, end := n+1, n+2
	g := syntax.Graph{Final: make([]bool, n+3)}
	g.Final[end] = true
	for i := range n {
		item, err := c.schema(itemParts(f.parts, i))
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

// itemParts is what an array's item has to satisfy.
func itemParts(parts []part, place int) (all []part) {
	for _, p := range parts {
		if prefix := p.get("prefixItems"); prefix != nil && place < len(prefix.items) {
			all = append(all, part{jsonValue: prefix.items[place]})
		} else if items := p.get("items"); items != nil {
			all = append(all, part{jsonValue: items})
		}
	}
	return all
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
