package grammar

import "slices"

// Grammars of parts, for answers that are more than one language: reasoning before JSON, calls of tools.

// Text is the grammar of exactly one text, which is valid UTF-8.
func Text(s string) *Grammar { return single(text(s)) }

// Space is white space of at most so many characters, perhaps none.
func Space(most int) *Grammar { return single(repeat{classOf(" \t\r\n"), 0, most}) }

// Special is the grammar of one special token, by its name in Tokens.Special.
func Special(name string) *Grammar { return single(special(name)) }

func single(x expr) *Grammar { return &Grammar{rules: []rule{{name: "root", body: x}}} }

func special(name string) expr { return seq{marker{}, text(name), marker{}} }

// Seq is texts of all parts, one after the other.
func Seq(parts ...*Grammar) *Grammar { return join(parts, func(x []expr) expr { return seq(x) }) }

// Choice is a text of any one of the options.
func Choice(options ...*Grammar) *Grammar {
	return join(options, func(x []expr) expr { return alt(x) })
}

// Optional is a text of g or nothing.
func Optional(g *Grammar) *Grammar { return Choice(g, Text("")) }

// List is one text of g or more, with a separator between them.
func List(g, separator *Grammar) *Grammar {
	return join([]*Grammar{g, separator}, func(x []expr) expr { return seq{x[0], star(seq{x[1], x[0]})} })
}

// join puts the rules of several grammars together under a new root.
func join(parts []*Grammar, root func([]expr) expr) *Grammar {
	g := &Grammar{}
	var refs []expr
	for _, p := range parts {
		base := ref(len(g.rules))
		for _, r := range p.rules {
			g.rules = append(g.rules, r.shifted(base))
		}
		refs = append(refs, ref(p.root)+base)
	}
	g.root = len(g.rules)
	g.rules = append(g.rules, rule{name: "root", body: root(refs)})
	return g
}

// shifted is the rule where rule i is called i + by.
func (r rule) shifted(by ref) rule {
	r.body = shift(r.body, by)
	if r.times != nil {
		t := *r.times
		t.body += int(by)
		r.times = &t
	}
	return r
}

func shift(x expr, by ref) expr {
	all := func(list []expr) []expr {
		list = slices.Clone(list)
		for i := range list {
			list[i] = shift(list[i], by)
		}
		return list
	}
	switch x := x.(type) {
	case ref:
		return x + by
	case seq:
		return seq(all(x))
	case alt:
		return alt(all(x))
	case repeat:
		x.x = shift(x.x, by)
		return x
	case graph:
		x.arcs = slices.Clone(x.arcs)
		for i, a := range x.arcs {
			if a.x != nil {
				x.arcs[i].x = shift(a.x, by)
			}
		}
		return x
	}
	return x // the others call no rules
}
