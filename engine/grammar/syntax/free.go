package syntax

import "slices"

// Without is any text that contains none of the stops. others, if not nil, are special tokens that may stand in the text.
func Without(stops []string, others Expr) Expr {
	f := freeText{next: []map[rune]int{{}}, stop: []bool{false}}
	for _, s := range stops {
		f.add(s)
	}
	return f.graph(others)
}

// freeText is the automaton of Aho and Corasick ("Efficient string matching", 1975): a node is the longest suffix of the text
// so far that is a prefix of a stop.
type freeText struct {
	next   []map[rune]int // by node: longer beginnings
	stop   []bool         // by node: a stop ends here
	prefix []string       // by node, but for the first
}

func (f *freeText) add(stop string) {
	at, read := 0, ""
	for _, r := range stop {
		read += string(r)
		to, ok := f.next[at][r]
		if !ok {
			to = len(f.next)
			f.next[at][r] = to
			f.next, f.stop, f.prefix = append(f.next, map[rune]int{}), append(f.stop, false), append(f.prefix, read)
		}
		at = to
	}
	f.stop[at] = at > 0
}

// graph is the automaton without the arcs that complete a stop. Special tokens, others, begin anew; nil: there are none.
func (f *freeText) graph(others Expr) Graph {
	g := Graph{Final: slices.Repeat([]bool{true}, len(f.next))}
	var letters []rune
	for _, p := range f.prefix {
		letters = append(letters, []rune(p)...)
	}
	slices.Sort(letters)
	letters = slices.Compact(letters)
	known := make([]RuneRange, len(letters))
	for i, r := range letters {
		known[i] = RuneRange{r, r}
	}
	for at := range f.next {
		read := ""
		if at > 0 {
			read = f.prefix[at-1]
		}
		for _, r := range letters {
			if to, stop := f.after(read + string(r)); !stop {
				g.Arcs = append(g.Arcs, GraphArc{at, to, Class{{r, r}}})
			}
		}
		g.Arcs = append(g.Arcs, GraphArc{at, 0, NewClass(known).Complement()})
		if others != nil {
			g.Arcs = append(g.Arcs, GraphArc{at, 0, others})
		}
	}
	return g
}

// after finds the node of a text, and whether a stop ends there.
func (f *freeText) after(read string) (node int, stop bool) {
	for from := range read { // the longest end of read first
		at := 0
		for _, r := range read[from:] {
			if at = f.next[at][r]; at == 0 {
				break
			}
		}
		if at > 0 {
			if node == 0 {
				node = at
			}
			stop = stop || f.stop[at]
		}
	}
	return node, stop
}

// OtherText is every text but those named.
func OtherText(names []string) Graph {
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
	g := Graph{Final: make([]bool, other+1)}
	on := make([][]RuneRange, other) // by node: what leads on to longer beginnings
	for i, s := range steps {
		one := RuneRange{s.r, s.r}
		on[s.from] = append(on[s.from], one)
		g.Arcs = append(g.Arcs, GraphArc{s.from, i + 1, Class{one}})
	}
	for i := range other {
		g.Final[i] = !named[i]
		g.Arcs = append(g.Arcs, GraphArc{i, other, NewClass(on[i]).Complement()})
	}
	g.Final[other] = true
	g.Arcs = append(g.Arcs, GraphArc{other, other, AnyRune})
	return g
}
