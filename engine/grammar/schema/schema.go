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
	// Relax leaves out keywords that cannot be enforced, which Parse refuses otherwise, and says which in the grammar's Unenforced.
	Relax bool
	// Meter counts the work of reading the schema and may end it; nil: nothing does.
	Meter *syntax.Meter
}

const maxSpaces = 256

// Parse is the JSON texts that satisfy a schema (draft 2020-12, and what earlier drafts put otherwise), with these choices:
//
//   - properties come in the order in which they are declared
//   - strings that have to match a pattern or format are written with the shortest escapes
//   - numbers with bounds are written without an exponent, others with at most two digits in it; integers without a bound stay
//     where readers of JSON are exact
//   - a schema without a type is one of the types that its keywords speak of
//   - oneOf, not, if and contains need to know what does not satisfy a schema, and are refused where that cannot be told while
//     writing
//   - formats are enforced; unknown ones are refused
//   - annotations are skipped; all other keywords that are not enforced are refused, by name and JSON pointer
func Parse(schema []byte, o Options) (*syntax.Grammar, error) {
	g := &syntax.Grammar{}
	notes, err := compile(schema, o, func(c *compiler, parts []part) error {
		r, err := c.schema(parts)
		g.Rules, g.Root = c.rules, int(r)
		return err
	})
	if err != nil {
		return nil, err
	}
	g.Unenforced = notes
	return g, nil
}

// readSchema reads a schema's text.
func readSchema(schema []byte, o Options) (*jsonValue, error) {
	if err := syntax.CheckSource("schema", string(schema)); err != nil {
		return nil, err
	}
	if o.Spaces < 0 || o.Spaces > maxSpaces {
		return nil, fmt.Errorf("grammar: %d characters of white space; between 0 and %d are possible", o.Spaces, maxSpaces)
	}
	root, err := readJSON(schema)
	if err != nil {
		return nil, fmt.Errorf("grammar: schema: %w", err)
	}
	return root, nil
}

// newCompiler takes a schema, and returns the parts that have to be satisfied.
func newCompiler(root *jsonValue, o Options) (c *compiler, parts []part) {
	c = &compiler{
		Options:    o,
		root:       root,
		references: newReferences(root),
		index:      map[string]syntax.Ref{},
		named:      map[string]syntax.Ref{},
		checked:    map[*jsonValue]bool{},
		negated:    map[*jsonValue]*jsonValue{},
		depending:  map[*jsonValue][]*jsonValue{},
		languages:  map[string]*language{},
		listed:     map[*jsonValue]map[string]bool{},
		lastMade:   firstMade,
		ws:         syntax.Seq{},
		gap:        syntax.Seq{},
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
		m := c.maker(root)
		parts = append(parts, part{jsonValue: m.object(member{"type", m.text("object")})})
	}
	return c, parts
}

// Object is any JSON object.
func Object(o Options) (*syntax.Grammar, error) {
	return Parse([]byte(`{"type":"object"}`), o)
}

// compiler turns sets of schemas into rules.
type compiler struct {
	Options
	root       *jsonValue
	references *references
	rules      []syntax.Rule
	index      map[string]syntax.Ref // by the schemas that have to be satisfied together
	named      map[string]syntax.Ref
	checked    map[*jsonValue]bool            // schemas whose keywords are known
	negated    map[*jsonValue]*jsonValue      // what schemas do not allow
	depending  map[*jsonValue][]*jsonValue    // what keywords of dependencies mean
	languages  map[string]*language           // of patterns and formats
	listed     map[*jsonValue]map[string]bool // of enums, the canonical texts of their values
	scopes     []scope
	lastMade   int         // the id of the last schema made here
	work       int         // schemas and properties looked at, again and again
	ws         syntax.Expr // behind { and [, before } and ]
	gap        syntax.Expr // behind , and :
}

// part is a schema that has to be satisfied, with what has been handled of it, and what it counts for unevaluated keywords.
type part struct {
	*jsonValue
	handled handled
	scope   int  // the schemas with unevaluated keywords that apply it to the same value; 0: none
	quiet   bool // what it looks at does not count for them
}

// handled is which keywords of a part other parts stand for.
type handled uint8

const (
	refsFollowed handled = 1 << iota
	anyOfChosen
	oneOfChosen
	ifDecided
)

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
		quiet := byte(0)
		if p.quiet {
			quiet = 1
		}
		key = append(binary.AppendUvarint(key, uint64(p.scope)), byte(p.handled), quiet)
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
	if slices.ContainsFunc(parts, func(p part) bool { return p.isFalse() }) {
		return syntax.Alt{}, nil
	}
	choices, err := c.alternatives(parts)
	if err != nil {
		return nil, err
	}
	if choices != nil {
		var options syntax.Alt
		for _, with := range choices {
			r, err := c.schema(with)
			if err != nil {
				return nil, err
			}
			options = append(options, r)
		}
		return options, nil
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
