package schema

import (
	"slices"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// property is a declared property of an object.
type property struct {
	name     string
	parts    []part
	required bool
}

// object is the language of the objects that satisfy f: the declared properties in their order, then others. Its graph
// has a node for every number of declared properties gone by and every number of properties written, as far as that
// matters: 0 and more, or with bounds of that number all the way. Before each property is a node of its own, which is
// reached with or without a comma.
//
//	(i, k) ──, ws──► before (i, k+1) ──"name": value──► (i+1, k+1)
//	   └──── nothing, if i is optional ─► (i+1, k)
func (c *compiler) object(f *facts) (syntax.Expr, error) {
	if f.members.impossible() {
		return syntax.Alt{}, nil
	}
	properties, err := c.properties(f)
	if err != nil {
		return nil, err
	}
	extra, err := c.extra(f, properties)
	if err != nil {
		return nil, err
	}
	o := objectGraph{c: c, n: len(properties), most: 1, limit: f.members.max}
	if err := o.bound(f, properties, len(extra) > 0); err != nil {
		return nil, err
	}
	if (o.n+2)*(2*o.most+1) > maxPlaces {
		return nil, c.cannot(f.keyword("maxProperties"), "the numbers of properties that may have come take more than %d states", maxPlaces)
	}
	o.Final = make([]bool, o.end()+1)
	o.Final[o.end()] = true
	for i, p := range properties {
		value, err := c.schema(p.parts)
		if err != nil {
			return nil, err
		}
		if err := c.look(o.most); err != nil {
			return nil, err
		}
		o.place(i, i+1, syntax.Seq{syntax.Text(quote(p.name) + ":"), c.gap, value})
		if !p.required {
			for k := 0; k <= o.most; k++ {
				o.arc(o.node(i, k), o.node(i+1, k), nil)
			}
		}
	}
	for _, x := range extra {
		o.place(o.n, o.n, x)
	}
	for k := 0; k <= o.most; k++ {
		if k >= f.members.min || k == o.most {
			o.arc(o.node(o.n, k), o.end(), c.closing(k, "}"))
		}
	}
	return syntax.Seq{syntax.Text("{"), o.Graph}, nil
}

// objectGraph is a graph under construction.
type objectGraph struct {
	syntax.Graph
	c     *compiler
	n     int // declared properties
	most  int // properties written that are told apart: so many, or more
	limit int // properties that may be written; < 0: any number
}

func (o *objectGraph) node(i, k int) int   { return i*(o.most+1) + k }
func (o *objectGraph) before(i, k int) int { return (o.n+1)*(o.most+1) + i*(o.most+1) + k }
func (o *objectGraph) end() int            { return 2 * (o.n + 1) * (o.most + 1) }

func (o *objectGraph) arc(from, to int, x syntax.Expr) {
	o.Arcs = append(o.Arcs, syntax.GraphArc{From: from, To: to, X: x})
}

// place puts a property between the nodes i and j.
func (o *objectGraph) place(i, j int, x syntax.Expr) {
	for k := 0; k <= o.most; k++ {
		next := min(k+1, o.most)
		if o.limit >= 0 && k+1 > o.limit {
			continue
		}
		o.arc(o.node(i, k), o.before(i, next), o.c.comma(k))
	}
	for k := 1; k <= o.most; k++ {
		o.arc(o.before(i, k), o.node(j, k), x)
	}
}

// bound finds how far the properties have to be counted.
func (o *objectGraph) bound(f *facts, properties []property, extra bool) error {
	required := 0
	for _, p := range properties {
		if p.required {
			required++
		}
	}
	if f.members.min > required {
		if extra && f.members.min > required+1 {
			return o.c.cannot(f.keyword("minProperties"), "minProperties cannot be enforced where others than the declared properties are allowed: they might have the same name")
		}
		o.most = max(min(f.members.min, len(properties)+1), 1)
	}
	if o.limit >= 0 && (extra || o.limit < len(properties)) {
		o.most = max(o.most, o.limit)
	} else {
		o.limit = -1
	}
	if extra {
		o.most = max(o.most, min(f.members.min, required+1))
	}
	f.members.min = min(f.members.min, o.most)
	return nil
}

// keyword is the value of a keyword that one of the parts has, or of the first part.
func (f *facts) keyword(key string) *jsonValue {
	for _, p := range f.parts {
		if v := p.get(key); v != nil {
			return v
		}
	}
	return f.parts[0].jsonValue
}

// properties lists the declared and the required properties, with all schemas of each.
func (c *compiler) properties(f *facts) ([]property, error) {
	var list []property
	index := map[string]int{}
	mention := func(name string) *property {
		i, ok := index[name]
		if !ok {
			i = len(list)
			index[name] = i
			list = append(list, property{name: name})
		}
		return &list[i]
	}
	for _, p := range f.parts {
		if declared := p.get("properties"); declared != nil {
			for _, name := range declared.keys {
				mention(name)
			}
		}
	}
	for _, p := range f.parts {
		if names := p.get("required"); names != nil {
			for _, name := range names.items {
				mention(name.text).required = true
			}
		}
	}
	names, err := c.listedNames(f)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		mention(name)
	}
	if err := c.look(len(list) * len(f.parts)); err != nil {
		return nil, err
	}
	for i := range list {
		schemas, _, err := c.propertySchemas(f.parts, list[i].name)
		if err != nil {
			return nil, err
		}
		list[i].parts = schemas
	}
	return list, nil
}

// propertySchemas is what a property has to satisfy, and whether a keyword speaks of it.
func (c *compiler) propertySchemas(parts []part, name string) (all []part, said bool, err error) {
	seen := make([]bool, len(parts)) // by part: its own keywords look at the property
	for i, p := range parts {
		own, err := c.ofProperty(p.jsonValue, name)
		if err != nil {
			return nil, false, err
		}
		for _, s := range own {
			all = append(all, part{jsonValue: s})
		}
		seen[i] = len(own) > 0
		if names := p.get("propertyNames"); names != nil {
			ok, err := c.valid(names, &jsonValue{kind: jsonString, text: name, above: names})
			if err != nil {
				return nil, false, err
			}
			if !ok {
				all = append(all, part{jsonValue: c.maker(names).boolean(false)})
			}
		}
	}
	more := c.unseen("unevaluatedProperties", parts, seen)
	return append(all, more...), len(more) > 0 || slices.Contains(seen, true), nil
}

// unseen is the schemas of an unevaluated keyword that hold for a property or item, given which parts look at it.
func (c *compiler) unseen(key string, parts []part, seen []bool) (all []part) {
	for i, p := range parts {
		rest := p.get(key)
		if rest == nil || seen[i] {
			continue
		}
		looked := false
		for j, q := range parts {
			looked = looked || c.within(q, p) && (seen[j] || j != i && q.get(key) != nil)
		}
		if !looked {
			all = append(all, part{jsonValue: rest})
		}
	}
	return all
}
