// Package schema reads JSON Schema into grammars.
package schema

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// Options are what a JSON schema does not determine.
type Options struct {
	// Spaces is how many characters of white space may stand in one place: behind { [ , and : and before } and ]. 0 is
	// compact JSON, which leaves the model the fewest choices.
	Spaces int
	// Spaced puts one space behind every , and : and none elsewhere, as Python's json.dumps does and most models have
	// learnt. It leaves as few choices as compact JSON. Spaces is ignored then.
	Spaced bool
	// Open is JSON Schema's own default: an object whose schema does not speak of additionalProperties may have others
	// than those declared. Without it, as in OpenAI's strict mode, it may not, unless it has no properties at all.
	Open bool
	// Object leaves out what is not an object, as arguments of tools must be one.
	Object bool
	// Meter counts the work of reading the schema and may end it; nil: nothing does.
	Meter *syntax.Meter
}

const maxSpaces = 256

// Parse is the JSON texts that satisfy a schema (draft 2020-12), with these choices:
//
//   - properties come in the order in which they are declared
//   - strings that have to match a pattern or format are written with the shortest escapes
//   - numbers with bounds are written without an exponent, others with at most two digits in it
//   - a schema without a type is one of the types that its keywords speak of
//   - oneOf must have options that no value written can satisfy two of, by type, by what they require, or by the values of
//     a property, which is then always written
//   - formats are enforced; unknown ones are refused
//   - annotations are skipped; all other keywords that are not enforced are refused, by name and JSON pointer
func Parse(schema []byte, o Options) (*syntax.Grammar, error) {
	c, parts, err := newCompiler(schema, o)
	if err != nil {
		return nil, err
	}
	r, err := c.schema(parts)
	if err != nil {
		return nil, fmt.Errorf("grammar: schema at %w", err)
	}
	return &syntax.Grammar{Rules: c.rules, Root: int(r)}, nil
}

// newCompiler reads a schema, as the parts that have to be satisfied.
func newCompiler(schema []byte, o Options) (c *compiler, parts []part, err error) {
	if err := syntax.CheckSource("schema", string(schema)); err != nil {
		return nil, nil, err
	}
	if o.Spaces < 0 || o.Spaces > maxSpaces {
		return nil, nil, fmt.Errorf("grammar: %d characters of white space; between 0 and %d are possible", o.Spaces, maxSpaces)
	}
	root, err := readJSON(schema)
	if err != nil {
		return nil, nil, fmt.Errorf("grammar: schema: %w", err)
	}
	c = &compiler{
		Options:   o,
		root:      root,
		index:     map[string]syntax.Ref{},
		named:     map[string]syntax.Ref{},
		checked:   map[*jsonValue]bool{},
		languages: map[string]*language{},
		ws:        syntax.Seq{},
		gap:       syntax.Seq{},
	}
	switch {
	case o.Spaced:
		c.gap = syntax.Text(" ")
	case o.Spaces > 0:
		c.ws = c.shared("white space", syntax.Repeat{X: syntax.ClassOf(" \t\n\r"), Min: 0, Max: o.Spaces})
		c.gap = c.ws
	}
	parts = []part{{jsonValue: root}}
	if o.Object {
		only, err := readJSON([]byte(`{"type":"object"}`))
		if err != nil {
			return nil, nil, err
		}
		only.id = 0 // as no schema of the source has it
		parts = append(parts, part{jsonValue: only})
	}
	return c, parts, nil
}

// Object is any JSON object.
func Object(o Options) (*syntax.Grammar, error) {
	return Parse([]byte(`{"type":"object"}`), o)
}

// compiler turns sets of schemas into rules.
type compiler struct {
	Options
	root      *jsonValue
	rules     []syntax.Rule
	index     map[string]syntax.Ref // by the schemas that have to be satisfied together
	named     map[string]syntax.Ref
	checked   map[*jsonValue]bool  // schemas whose keywords are known
	languages map[string]*language // of patterns and formats
	work      int                  // schemas and properties looked at, again and again
	ws        syntax.Expr          // behind { and [, before } and ]
	gap       syntax.Expr          // behind , and :
}

// part is a schema that has to be satisfied, with what has been handled: its references were followed, an option was chosen.
type part struct {
	*jsonValue
	followed, anyOf, oneOf bool
}

// shared returns a rule for an expression that many schemas have.
func (c *compiler) shared(name string, body syntax.Expr) syntax.Ref {
	r, ok := c.named[name]
	if !ok {
		r = syntax.Ref(len(c.rules))
		c.rules = append(c.rules, syntax.Rule{Name: name, Body: body})
		c.named[name] = r
	}
	return r
}

// errAt is an error with the JSON pointer of its place in the schema.
func errAt(v *jsonValue, format string, args ...any) error {
	return fmt.Errorf("%.300s: %w", v.where(), fmt.Errorf(format, args...))
}

// schema returns the rule of what satisfies all the parts. Rules are known by their parts, so a schema that refers to
// itself becomes a rule that calls itself.
func (c *compiler) schema(parts []part) (syntax.Ref, error) {
	flat, err := c.flatten(parts)
	if err != nil {
		return 0, err
	}
	var key []byte
	for _, p := range flat {
		key = binary.AppendUvarint(key, uint64(p.id))
		switch {
		case p.anyOf && p.oneOf:
			key = append(key, 3)
		case p.anyOf:
			key = append(key, 1)
		case p.oneOf:
			key = append(key, 2)
		default:
			key = append(key, 0)
		}
	}
	if r, ok := c.index[string(key)]; ok {
		return r, nil
	}
	if len(c.rules) >= syntax.MaxRules {
		return 0, errAt(c.root, "its parts combine in more than %d ways", syntax.MaxRules)
	}
	r := syntax.Ref(len(c.rules))
	name := "any value"
	if len(flat) > 0 {
		name = flat[0].where()
	}
	c.rules = append(c.rules, syntax.Rule{Name: name})
	c.index[string(key)] = r
	body, err := c.body(flat)
	if err != nil {
		return 0, err
	}
	c.rules[r].Body = body
	return r, nil
}

// body returns the language of parts that refer to no others.
func (c *compiler) body(parts []part) (syntax.Expr, error) {
	for i, p := range parts {
		if p.isFalse() {
			return syntax.Alt{}, nil
		}
		if group := p.get("anyOf"); group != nil && !p.anyOf {
			p.anyOf = true
			return c.choice(parts, i, p, group, nil)
		}
		if group := p.get("oneOf"); group != nil && !p.oneOf {
			p.oneOf = true
			always, err := c.apart(group, slices.Concat(parts[:i], []part{p}, parts[i+1:]))
			if err != nil {
				return nil, err
			}
			return c.choice(parts, i, p, group, always)
		}
	}
	f, err := c.facts(parts)
	if err != nil {
		return nil, err
	}
	if f.enum != nil {
		return c.enum(f)
	}
	var options syntax.Alt
	for _, t := range []struct {
		types jsonTypes
		make  func(*facts) (syntax.Expr, error)
	}{
		{typeObject, c.object},
		{typeArray, c.array},
		{typeString, c.string},
		{typeNumber | typeInteger, c.number},
		{typeBoolean, func(*facts) (syntax.Expr, error) { return syntax.Alt{syntax.Text("true"), syntax.Text("false")}, nil }},
		{typeNull, func(*facts) (syntax.Expr, error) { return syntax.Text("null"), nil }},
	} {
		if f.types&t.types != 0 {
			x, err := t.make(f)
			if err != nil {
				return nil, err
			}
			options = append(options, x)
		}
	}
	return options, nil
}

// choice takes each option of a group in turn, together with all other parts, and with the schema beside the option.
func (c *compiler) choice(parts []part, at int, made part, group *jsonValue, beside []*jsonValue) (syntax.Expr, error) {
	var options syntax.Alt
	for i, option := range group.items {
		with := append([]part(nil), parts...)
		with[at] = made
		if with = append(with, part{jsonValue: option}); beside != nil && beside[i] != nil {
			with = append(with, part{jsonValue: beside[i]})
		}
		r, err := c.schema(with)
		if err != nil {
			return nil, err
		}
		options = append(options, r)
	}
	return options, nil
}

// maxLooks bounds the visits of schemas and properties, over all combinations.
const maxLooks = 250_000

// lookUnits is what a visit costs, in a Meter's units.
const lookUnits = 5

func (c *compiler) look(n int) error {
	if !c.Meter.Spend(lookUnits * n) {
		return c.Meter.Err()
	}
	if c.work += n; c.work > maxLooks {
		return errAt(c.root, "its references and choices combine in too many ways")
	}
	return nil
}
