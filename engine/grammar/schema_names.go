package grammar

// otherName is the language of the names that are not declared. They are spelled in one way only, so that a declared
// name cannot come in other letters.
func (c *schemaCompiler) otherName(declared []property) expr {
	if len(declared) == 0 {
		return c.anyString()
	}
	return seq{text(`"`), quoted{otherText(names(declared))}, text(`"`)}
}

func names(declared []property) (all []string) {
	for _, p := range declared {
		all = append(all, p.name)
	}
	return all
}

// otherText is every text but those named.
func otherText(names []string) graph {
	// The nodes are the beginnings of the declared names; everything else is one node more.
	type step struct {
		from int
		r    rune
	}
	index := map[step]int{}
	var steps []step // by the node they lead to, from node 1 on
	named := map[int]bool{}
	for _, name := range names {
		at := 0
		for _, r := range name {
			s := step{at, r}
			if index[s] == 0 {
				steps = append(steps, s)
				index[s] = len(steps)
			}
			at = index[s]
		}
		named[at] = true
	}
	other := len(steps) + 1
	g := graph{final: make([]bool, other+1)}
	on := make([][]runeRange, other) // by node: what leads on to longer beginnings
	for i, s := range steps {
		one := runeRange{s.r, s.r}
		on[s.from] = append(on[s.from], one)
		g.arcs = append(g.arcs, graphArc{s.from, i + 1, class{one}})
	}
	for i := range other {
		g.final[i] = !named[i]
		g.arcs = append(g.arcs, graphArc{i, other, newClass(on[i]).not()})
	}
	g.final[other] = true
	g.arcs = append(g.arcs, graphArc{other, other, anyRune})
	return g
}
