package grammar

import "slices"

// AnyText is any text without special tokens.
func AnyText() *Grammar { return single(star(anyRune)) }

// Free is any text, special tokens included, in which none of the stops comes: what a model writes before something
// that it has to write in a form. A stop is a text, or the name of a special token.
func Free(texts, specials []string) *Grammar {
	f := freeText{next: []map[rune]int{{}}, stop: []bool{false}}
	for _, s := range texts {
		f.add(s)
	}
	return single(f.graph(otherSpecial(specials)))
}

// freeText is the automaton that looks for several texts at once (Aho and Corasick, "Efficient string matching", 1975):
// a node is the longest end of the text so far that is the beginning of a stop.
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
func (f *freeText) graph(others expr) graph {
	g := graph{final: slices.Repeat([]bool{true}, len(f.next))}
	var letters []rune
	for _, p := range f.prefix {
		letters = append(letters, []rune(p)...)
	}
	slices.Sort(letters)
	letters = slices.Compact(letters)
	known := make([]runeRange, len(letters))
	for i, r := range letters {
		known[i] = runeRange{r, r}
	}
	for at := range f.next {
		read := ""
		if at > 0 {
			read = f.prefix[at-1]
		}
		for _, r := range letters {
			if to, stop := f.after(read + string(r)); !stop {
				g.arcs = append(g.arcs, graphArc{at, to, class{{r, r}}})
			}
		}
		g.arcs = append(g.arcs, graphArc{at, 0, newClass(known).not()})
		if others != nil {
			g.arcs = append(g.arcs, graphArc{at, 0, others})
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

// otherSpecial is any special token but those of the given names.
func otherSpecial(but []string) expr {
	return seq{marker{}, otherText(but), marker{}}
}
