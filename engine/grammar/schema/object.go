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
	if err := o.bound(f, properties, extra != nil); err != nil {
		return nil, err
	}
	if (o.n+2)*(2*o.most+1) > maxPlaces {
		return nil, errAt(f.parts[0].jsonValue, "the numbers of properties that may have come take more than %d states", maxPlaces)
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
	if extra != nil {
		o.place(o.n, o.n, extra)
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
		if extra {
			return errAt(f.parts[0].jsonValue, "minProperties cannot be enforced where others than the declared properties are allowed: they might have the same name")
		}
		o.most = min(f.members.min, len(properties)+1)
	}
	if o.limit >= 0 && (extra || o.limit < len(properties)) {
		o.most = max(o.most, o.limit)
	} else {
		o.limit = -1
	}
	f.members.min = min(f.members.min, o.most)
	return nil
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
	if err := c.look(len(list) * len(f.parts)); err != nil {
		return nil, err
	}
	for _, p := range f.parts {
		own := map[string]*jsonValue{}
		if declared := p.get("properties"); declared != nil {
			for i, name := range declared.keys {
				own[name] = declared.items[i]
			}
		}
		additional := p.get("additionalProperties")
		for i := range list {
			if s := own[list[i].name]; s != nil {
				list[i].parts = append(list[i].parts, part{jsonValue: s})
			} else if additional != nil {
				list[i].parts = append(list[i].parts, part{jsonValue: additional})
			}
		}
	}
	return list, nil
}

// extra returns the language of a property that is not declared, or nil if there may be none.
func (c *compiler) extra(f *facts, declared []property) (syntax.Expr, error) {
	var parts []part
	said, lists := false, len(declared) > 0
	for _, p := range f.parts {
		lists = lists || p.get("properties") != nil // an empty list is one: tools without arguments have it
		if s := p.get("additionalProperties"); s != nil {
			said = true
			parts = append(parts, part{jsonValue: s})
		}
	}
	if !said && !c.Open && lists || slices.ContainsFunc(parts, func(p part) bool { return p.isFalse() }) {
		return nil, nil
	}
	value, err := c.schema(parts)
	if err != nil {
		return nil, err
	}
	return syntax.Seq{c.otherName(declared), syntax.Text(":"), c.gap, value}, nil
}
