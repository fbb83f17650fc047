package grammar

// maxPlaces bounds the items and properties that a schema tells apart.
const maxPlaces = 20_000

// array is the language of the arrays that satisfy f: those of prefixItems one by one, then any number of others.
//
//	node 0 ──ws item──► 1 ──, ws item──► 2 … n ──(, ws other){…}──► tail
//	  └── ] ──► end     └── ws ] ──► end                              └── ws ] ──► end
func (c *schemaCompiler) array(f *facts) (expr, error) {
	if f.items.impossible() {
		return alt{}, nil
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
	g := graph{final: make([]bool, n+3)}
	g.final[end] = true
	for i := range n {
		item, err := c.schema(itemParts(f.parts, i))
		if err != nil {
			return nil, err
		}
		if err := c.look(1 + len(f.parts)); err != nil {
			return nil, err
		}
		g.arcs = append(g.arcs, graphArc{i, i + 1, seq{c.comma(i), item}})
		if i >= f.items.min {
			g.arcs = append(g.arcs, graphArc{i, end, c.closing(i, "]")})
		}
	}
	if n >= f.items.min && n > 0 {
		g.arcs = append(g.arcs, graphArc{n, end, c.closing(n, "]")})
	}
	others := repeat{seq{c.comma(1), other}, max(f.items.min-n, 1), -1}
	if f.items.max >= 0 {
		others.max = f.items.max - n
	}
	if n == 0 {
		g.arcs = append(g.arcs, graphArc{0, end, c.closing(0, "]")})
	} else if others.max != 0 {
		g.arcs = append(g.arcs, graphArc{n, tail, others}, graphArc{tail, end, c.closing(1, "]")})
	}
	return seq{text("["), g}, nil
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
func (c *schemaCompiler) comma(place int) expr {
	if place == 0 {
		return c.ws
	}
	return seq{text(","), c.gap}
}

// closing is the bracket behind so many items or properties.
func (c *schemaCompiler) closing(places int, bracket string) expr {
	if places == 0 {
		return text(bracket)
	}
	return seq{c.ws, text(bracket)}
}
