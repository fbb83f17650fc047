package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/ridge-llm/ridge/engine/grammar/automaton"
	"github.com/ridge-llm/ridge/engine/grammar/grammartest"
)

// validator is another implementation's reading of a schema.
func validator(t interface{ Fatal(...any) }, schema string) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func isValid(t interface{ Fatal(...any) }, s *jsonschema.Schema, text string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(fmt.Sprintf("%q is not JSON: %v", text, err))
	}
	return s.Validate(v)
}

// drawRoot draws a whole schema with two definitions.
func drawRoot(t *rapid.T) string {
	schema := drawSchema(t, 3, false)
	if schema == "true" || schema == "false" {
		return schema
	}
	defs := `"$defs":{"x":` + drawSchema(t, 1, false) + `,"y~/":` + drawSchema(t, 2, false) + `}`
	if schema == "{}" {
		return "{" + defs + "}"
	}
	return strings.TrimSuffix(schema, "}") + "," + defs + "}"
}

// refusals that random schemas may meet rightly.
var rightRefusals = []string{"no text at all", "cannot be checked", "minProperties cannot be enforced", "does not hold cannot be enforced",
	"that all items differ cannot be enforced", "a value may satisfy this", "the names take more than", "combine in too many ways"}

func compileDrawn(t *rapid.T, schema string, o Options) *automaton.Automaton {
	g, err := Parse([]byte(schema), o)
	var a *automaton.Automaton
	if err == nil {
		a, err = automaton.Compile(g, grammartest.ByteVocabulary())
	}
	if err != nil && !slices.ContainsFunc(rightRefusals, func(s string) bool { return strings.Contains(err.Error(), s) }) {
		t.Fatal(err)
	}
	return a
}

// TestSchemaAgrees draws schemas and values: the automaton must allow a value, in one order of its keys, exactly if the
// other implementation finds it valid.
func TestSchemaAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schema := drawRoot(t)
		a := compileDrawn(t, schema, Options{Open: true})
		other := validator(t, schema)
		var root any
		if err := json.Unmarshal([]byte(schema), &root); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			value := drawInstance(t, root, root, 4)
			orders := writings(value)
			want := isValid(t, other, orders[0])
			got := a != nil && slices.ContainsFunc(orders, func(text string) bool {
				m, err := a.Start()
				return err == nil && grammartest.Reads(m, text)
			})
			if a == nil && want != nil {
				continue
			}
			if a == nil {
				if _, err := Parse([]byte(schema), Options{Open: true}); err != nil {
					return // refused for another reason than having no text
				}
			}
			if got != (want == nil) {
				t.Fatalf("%s\n%s is allowed: %v, but: %v", schema, orders[0], got, want)
			}
		}
	})
}

// writings is a value's JSON text with the keys of its objects in all orders, up to some number.
func writings(v any) []string {
	const most = 5000
	var out []string
	switch v := v.(type) {
	case []any:
		out = []string{"["}
		for i, item := range v {
			var next []string
			for _, begin := range out {
				for _, s := range writings(item) {
					if i > 0 {
						s = "," + s
					}
					next = append(next, begin+s)
				}
			}
			out = next[:min(len(next), most)]
		}
		for i := range out {
			out[i] += "]"
		}
	case map[string]any:
		if len(v) == 0 {
			return []string{"{}"}
		}
		for key, item := range v {
			rest := map[string]any{}
			for k, x := range v {
				if k != key {
					rest[k] = x
				}
			}
			for _, s := range writings(item) {
				for _, more := range writings(rest) {
					if more != "{}" {
						more = "," + more[1:]
					} else {
						more = "}"
					}
					out = append(out, "{"+quote(key)+":"+s+more)
				}
			}
		}
		out = out[:min(len(out), most)]
	case string:
		return []string{quote(v)}
	default:
		text, _ := json.Marshal(v)
		return []string{string(text)}
	}
	return out
}

// TestSchemaWalks draws schemas and writes random texts under their masks: the other implementation must find all of
// them valid.
func TestSchemaWalks(t *testing.T) {
	tokens := grammartest.ByteTokens()
	for _, s := range []string{`":`, `",`, `"}`, `{"`, `},"`, `ab`, `"a":`, `null`, `tru`, `]}`, `[{`, `.5`, `12`, "é\"", `  "`} {
		tokens = append(tokens, []byte(s))
	}
	v, err := automaton.NewVocabulary(automaton.Tokens{Bytes: tokens, Ends: []int32{256}})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		schema := drawRoot(t)
		if rapid.Bool().Draw(t, "applied") {
			schema = drawApplied(t)
		}
		o := Options{Open: rapid.Bool().Draw(t, "open"), Spaces: rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "spaces"), Spaced: rapid.Bool().Draw(t, "spaced")}
		a := compileDrawn(t, schema, o)
		if a == nil {
			return
		}
		g, _ := Parse([]byte(schema), o)
		if a, err = automaton.Compile(g, v); err != nil {
			t.Fatal(err)
		}
		other := validator(t, schema)
		m, err := a.Start()
		if err != nil {
			t.Fatal(err)
		}
		rng := grammartest.Rand(schema)
		for range 5 {
			text, ok := grammartest.Write(t, m, tokens, rng, 60)
			if !ok {
				continue
			}
			if err := isValid(t, other, text); err != nil {
				t.Fatalf("%s\nwrote %s: %v", schema, text, err)
			}
		}
	})
}
