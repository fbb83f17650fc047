package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/engine/grammar/grammartest"
)

// TestSchemaFeatures gives, for schemas, texts that are allowed and texts that are not.
func TestSchemaFeatures(t *testing.T) {
	const person = `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0}},"required":["name"]}`
	for _, c := range []struct {
		schema  string
		o       Options
		yes, no []string
	}{
		{person, Options{}, []string{`{"name":"A\u00e9\ud83d\ude00\/","age":0}`, `{"name":""}`},
			[]string{`{"age":1,"name":"A"}`, `{"name":"A","x":1}`, `{"name":"\ud800"}`, `{"name": "A"}`, `{"name":"A","age":-1}`, `{}`}},
		{person, Options{Open: true}, []string{`{"name":"A","x":[1,{"y":null}]}`, `{"name":"A","nam":1,"names":2}`},
			[]string{`{"name":"A","age":1,"name":5}`, `{"name":"A","age":"x"}`, `{"name":"A","n\u0061me":5}`}},
		{person, Options{Spaces: 3}, []string{`{"name": "A"}`, "{\n  \"name\": \"A\",\n  \"age\": 7\n}", `{"name":"A"}`},
			[]string{`{    "name":"A"}`, `{"name" :"A"}`}},
		{person, Options{Spaced: true}, []string{`{"name": "A", "age": 7}`, `{"name": ""}`}, []string{`{"name":"A"}`, `{"name": "A" }`, `{ "name": "A"}`, `{"name": "A","age": 7}`}},
		{`{"enum":[{"b":1,"a":[]},[1,2],{}]}`, Options{Spaced: true}, []string{`{"b": 1, "a": []}`, `[1, 2]`, `{}`}, []string{`{"b":1, "a": []}`, `[1,2]`}},
		{`{"type":"array","items":true}`, Options{Spaced: true}, []string{`[]`, `[1, {"a": [2, 3]}]`}, []string{`[1,2]`, `[ ]`, `[1, 2 ]`}},
		{`{"type":"object"}`, Options{}, []string{`{}`, `{"a":{"b":[true,false,null,-0.5e-7,"x"]}}`}, []string{`[]`, `{"a":01}`, `{"a":1e100}`, `{,}`}},
		{`{"enum":[{"b":1,"a":[]},"x"]}`, Options{Spaces: 1}, []string{`{"b": 1, "a": []}`, `{"b":1,"a":[]}`, `"x"`}, []string{`{"a":[],"b":1}`}},
		{`{"$defs":{"list":{"type":"object","properties":{"value":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/list"},{"type":"null"}]}},"required":["value","next"]}},"$ref":"#/$defs/list"}`,
			Options{}, []string{`{"value":1,"next":{"value":2,"next":null}}`}, []string{`{"value":1}`, `{"value":1,"next":{}}`}},
		{`{"type":"array","items":{"$ref":"#"},"maxItems":2}`, Options{}, []string{`[[],[[],[]]]`}, []string{`[[],[],[]]`, `[1]`}},
		{`{"type":"string","minLength":2,"maxLength":300}`, Options{}, []string{`"é\n"`, `"` + strings.Repeat(`\ud83d\ude00`, 300) + `"`},
			[]string{`"a"`, `"` + strings.Repeat(`a`, 301) + `"`}},
		{`{"type":"string","pattern":"^[a-z]+$","maxLength":1000000}`, Options{}, []string{`"` + strings.Repeat("a", 2000) + `"`}, []string{`""`, `"A"`}},
		{`{"type":"string","pattern":"o","maxLength":5}`, Options{}, []string{`"o"`, `"\"\"oo\n"`}, []string{`"\"\"oooo"`, `"aaaaa"`}},
		{`{"type":"string","pattern":"^.a","format":"uuid"}`, Options{}, []string{`"1a3e4567-e89b-12d3-a456-426614174000"`}, []string{`"123e4567-e89b-12d3-a456-426614174000"`}},
		{`{"allOf":[{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]},{"properties":{"a":{"minimum":3},"b":true},"required":["b"]}]}`,
			Options{}, []string{`{"a":3,"b":[0]}`}, []string{`{"a":2,"b":0}`, `{"a":3}`, `{"a":3,"b":0,"c":0}`}},
		{`{"type":"object","properties":{"a":true,"b":true,"c":true},"minProperties":2,"maxProperties":2,"additionalProperties":false}`,
			Options{}, []string{`{"a":0,"c":0}`, `{"b":0,"c":0}`}, []string{`{"a":0}`, `{"a":0,"b":0,"c":0}`, `{}`}},
		{`{"type":"object","properties":{}}`, Options{}, []string{`{}`}, []string{`{"a":0}`}},
		{`{"type":"object","properties":{},"additionalProperties":true}`, Options{}, []string{`{}`, `{"a":0}`}, nil},
		{`{"type":"object","maxProperties":1}`, Options{}, []string{`{}`, `{"a":0}`}, []string{`{"a":0,"b":0}`}},
		{`{"properties":{"a":true}}`, Options{}, []string{`{"a":"any"}`, `{}`}, []string{`1`}},
		{`{"oneOf":[{"type":"integer"},{"type":"string"},{"type":["array","null"],"items":{"type":"integer"}}]}`, Options{}, []string{`1`, `"a"`, `[1]`, `null`}, []string{`1.5`, `true`}},
		{`{"oneOf":[{"enum":["a",1]},{"const":"b"},{"enum":[2.5]}]}`, Options{}, []string{`"a"`, `"b"`, `1`, `2.5`}, []string{`"c"`}},
		{`{"oneOf":[{"$ref":"#/$defs/a"},{"type":"object","properties":{"k":{"const":"b"},"n":{"type":"integer"}},"required":["k"]}],"$defs":{"a":{"type":"object","properties":{"k":{"enum":["a"]}},"required":["k"]}}}`, Options{}, []string{`{"k":"a"}`, `{"k":"b","n":1}`}, []string{`{"k":"a","n":1}`, `{}`}},
		{`{"oneOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"type":"object","properties":{"b":{"type":"integer"}},"additionalProperties":false}]}`, Options{}, []string{`{"a":1}`, `{"b":1}`, `{}`}, []string{`{"a":1,"b":1}`}},
		{`{"oneOf":[{"type":"object","properties":{"d":{"type":"object","properties":{"t":{"const":1}},"required":["t"]}},"required":["d"]},{"type":"object","properties":{"d":{"type":"object","properties":{"t":{"const":2}}}}}]}`, Options{}, []string{`{"d":{"t":1}}`, `{"d":{"t":2}}`, `{}`}, []string{`{"d":{"t":3}}`}},
		// Objects of one option lack what the other requires; a discriminator that is not required is written all the same.
		{`{"oneOf":[{"type":"string"},{"type":"object","properties":{"a":{}},"required":["a"]},{"type":"object","properties":{"b":{"type":"integer"}},"required":["b"]}]}`, Options{}, []string{`"x"`, `{"a":1}`, `{"b":1}`}, []string{`{}`, `{"a":1,"b":1}`}},
		{`{"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"n":{"type":"integer"}}},{"type":"object","properties":{"k":{"const":"b"},"n":{"type":"integer"}}},{"properties":{"k":{"enum":["c","d"]}},"additionalProperties":true}]}`,
			Options{}, []string{`{"k":"a"}`, `{"k":"b","n":1}`, `{"k":"d","x":1}`}, []string{`{}`, `{"n":1}`, `{"k":"e"}`}},
		{`{"type":"object","properties":{"z":{"type":"null"}},"oneOf":[{"properties":{"a":true},"required":["a"]},{"properties":{"b":true},"required":["b"]}]}`,
			Options{}, []string{`{"z":null,"a":1}`, `{"b":1}`}, []string{`{"z":null}`, `{"a":1,"b":1}`}},
		{`{"type":"integer","minimum":-9007199254740993,"exclusiveMaximum":18446744073709551616}`, Options{},
			[]string{`-9007199254740993`, `18446744073709551615`, `0`}, []string{`-9007199254740994`, `18446744073709551616`, `-0`, `007`, `1.0`}},
		{`{"type":"number","multipleOf":0.01,"minimum":0.1,"maximum":10}`, Options{}, []string{`0.1`, `0.10`, `10`, `9.99`, `10.0`}, []string{`0.09`, `0.101`, `10.01`, `-1`, `1e0`}},
		{`{"type":"integer","allOf":[{"multipleOf":4},{"multipleOf":6}]}`, Options{}, []string{`0`, `12`, `-24`, `120`}, []string{`4`, `6`, `8`}},
		{`{"type":["integer","null"],"title":"t","x-order":1,"default":5}`, Options{}, []string{`5`, `null`}, []string{`"5"`}},
		{`{"$ref":"#/properties/a~1b%25","properties":{"a/b%":{"const":"é"}}}`, Options{}, []string{`"é"`}, []string{`{}`}},
		{`true`, Options{Object: true}, []string{`{}`, `{"a":[1]}`}, []string{`null`, `[]`}},
		{`{"anyOf":[{"type":"integer"},{"properties":{"a":{"$ref":"#"}}}]}`, Options{Object: true}, []string{`{}`, `{"a":{"a":1}}`, `{"a":2}`}, []string{`3`, `{"b":1}`}},
		{`true`, Options{}, []string{`null`, `[[]]`, `"x"`}, []string{``, `nul`}},
		{`{"type":"object","propertyNames":{"type":"string"},"additionalProperties":{"type":"number"}}`, Options{}, []string{`{}`, `{"x":1}`}, []string{`{"x":"a"}`}},
		{`{"type":"object","propertyNames":{"enum":["a","b"]},"additionalProperties":{"type":"integer"}}`, Options{}, []string{`{"a":1,"b":2}`, `{"b":2}`}, []string{`{"c":1}`, `{"a":1,"a":1}`}},
		{`{"type":"object","propertyNames":{"pattern":"^[a-z]+$"},"properties":{"A":true},"additionalProperties":true}`, Options{}, []string{`{"ab":1}`}, []string{`{"A":1}`, `{"a1":1}`}},
		{`{"type":"object","patternProperties":{"^a":{"type":"integer"},"b$":{"minimum":3}},"properties":{"c":true}}`, Options{}, []string{`{"c":[],"a":1,"ab":3,"b":4}`}, []string{`{"a":"x"}`, `{"ab":1}`, `{"x":1}`}},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"array","items":[{"type":"integer"},{"type":"string"}],"additionalItems":false,"minItems":2.0}`, Options{}, []string{`[1,"a"]`}, []string{`[1]`, `[1,"a",2]`}},
		{`{"type":"array","items":{"type":["integer","string"]},"contains":{"type":"string"},"minContains":2,"maxContains":2}`, Options{}, []string{`["a",1,"b"]`}, []string{`["a"]`, `["a","b","c"]`}},
		{`{"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true,"minItems":1}`, Options{}, []string{`["b","a"]`, `["a"]`, `["c","b","a"]`}, []string{`[]`, `["a","a"]`}},
		{`{"type":"array","items":{"enum":[1,2,3,4,5,6,7,8,9]},"uniqueItems":true}`, Options{}, []string{`[]`, `[1,9]`}, []string{`[9,1]`, `[2,2]`}},
		{`{"type":"string","not":{"enum":["a","b"]},"maxLength":1}`, Options{}, []string{`"c"`, `""`}, []string{`"a"`, `"\u0061"`}},
		{`{"type":"integer","minimum":1,"not":{"const":3}}`, Options{}, []string{`2`, `4`, `30`}, []string{`3`, `0`}},
		{`{"type":["integer","string"],"not":{"type":"integer"}}`, Options{}, []string{`"a"`}, []string{`1`}},
		{`{"type":"number","not":{"type":"integer"}}`, Options{}, []string{`1.5`, `-0.25`}, []string{`1`, `1.0`, `2e0`}},
		{`{"type":"object","properties":{"k":{"enum":["a","b"]},"n":{"type":"integer"}},"required":["k"],"if":{"properties":{"k":{"const":"a"}}},"then":{"required":["n"]}}`, Options{}, []string{`{"k":"a","n":1}`, `{"k":"b"}`}, []string{`{"k":"a"}`}},
		{`{"type":"object","properties":{"a":true,"b":true},"dependentRequired":{"a":["b"]}}`, Options{}, []string{`{}`, `{"b":1}`, `{"a":1,"b":1}`}, []string{`{"a":1}`}},
		{`{"type":"object","properties":{"a":true},"dependentSchemas":{"a":{"properties":{"b":{"type":"integer"}},"required":["b"]}}}`, Options{}, []string{`{}`, `{"a":1,"b":1}`}, []string{`{"a":1}`, `{"a":1,"b":"x"}`}},
		{`{"type":"object","allOf":[{"properties":{"a":true}}],"properties":{"b":true},"unevaluatedProperties":false}`, Options{Open: true}, []string{`{"a":1,"b":1}`}, []string{`{"c":1}`}},
		{`{"type":"array","prefixItems":[true],"unevaluatedItems":{"type":"integer"}}`, Options{Open: true}, []string{`["a",1]`}, []string{`["a","b"]`}},
		{`{"oneOf":[{"type":"integer"},{"type":"number","minimum":2}]}`, Options{}, []string{`1`, `2.5`, `-7`}, []string{`3`, `1.5`}},
		{`{"$ref":"#n","$defs":{"x":{"$id":"http://e.org/x","$defs":{"y":{"$anchor":"n","const":1}}},"z":{"$anchor":"n","const":2}}}`, Options{}, []string{`2`}, []string{`1`}},
		{`{"type":"number","minimum":1,"exclusiveMinimum":true}`, Options{}, []string{`1.5`}, []string{`1`}},
		{`{"type":"integer"}`, Options{}, []string{`9007199254740991`, `-9007199254740991`}, []string{`9007199254740992`}},
		{`{"type":"integer","minimum":5}`, Options{}, []string{`9007199254740991`}, []string{`9007199254740992`, `4`}},
		{`{"enum":[{"a":1},{"a":"x"},[1,1]],"properties":{"a":{"type":"integer"}},"uniqueItems":true}`, Options{}, []string{`{"a":1}`}, []string{`{"a":"x"}`, `[1,1]`}},
	} {
		g, err := Parse([]byte(c.schema), c.o)
		m, err := grammartest.Start(t, g, err)
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		for _, text := range c.yes {
			if !grammartest.Reads(m, text) {
				t.Errorf("%.200s %+v: %.100s is not allowed", c.schema, c.o, text)
			}
		}
		for _, text := range c.no {
			if grammartest.Reads(m, text) {
				t.Errorf("%.200s %+v: %.100s is allowed", c.schema, c.o, text)
			}
		}
	}
}

func TestSchemaRefusals(t *testing.T) {
	for schema, want := range map[string]string{
		``:                                       "ends in the middle",
		`{"type":"object"`:                       "ends in the middle",
		`{"type":"object"}}`:                     "follows its end at byte 17",
		`{"a":1,"a":2}`:                          `# has the key "a" twice`,
		"\"\xff\"":                               "UTF-8",
		`5`:                                      "#: a schema must be an object",
		`{"type":"strin"}`:                       `#/type: "strin" is not a type`,
		`{"type":[]}`:                            "names no type",
		`{"not":{}}`:                             "no text at all",
		`{"not":{"format":"date"}}`:              `that "format" does not hold cannot be enforced`,
		`{"not":{"patternProperties":{"a":{}}}}`: `that "patternProperties" does not hold cannot be enforced`,
		`{"properties":{"a/b":{"nulable":true}}}`:         `#/properties/a~1b: the keyword "nulable" is not supported`,
		"{\"\\u0000otherThan\":[]}":                       "is not supported",
		`{"enum":[]}`:                                     "no text at all",
		`{"enum":1}`:                                      "#/enum: it must be a list",
		`{"type":"string","format":"colour"}`:             `#/format: the format "colour" is not supported; there are base64, `,
		`{"oneOf":[{"format":"date"},{"format":"time"}]}`: "#/oneOf/1: a value may satisfy this and option 0 of oneOf",
		`{"contains":{"format":"date"},"maxContains":1}`:  `that "format" does not hold`,
		`{"uniqueItems":true,"items":{"type":"integer"}}`: "#/uniqueItems: that all items differ cannot be enforced",
		`{"enum":[[1]],"unevaluatedItems":false}`:         "cannot be checked for the values",
		`{"$ref":"#anchor"}`:                              "leads nowhere",
		`{"$ref":"#/a%zz"}`:                               "is no URI",
		`{"$dynamicRef":"#a","$defs":{"b":{"$id":"x","$dynamicAnchor":"a"},"c":{"$dynamicAnchor":"a"}}}`: "several schemas have the $dynamicAnchor",
		`{"maxItems":2.5}`:                         "whole number",
		`{"type":"array","uniqueItems":true}`:      "#/uniqueItems: that all items differ cannot be enforced",
		`{"type":"string","pattern":"a(?=b)"}`:     "#/pattern: grammar: pattern",
		`{"type":"string","pattern":"(a"}`:         "has no )",
		`{"minLength":-1}`:                         "#/minLength: it must be a whole number",
		`{"minLength":1.5}`:                        "whole number",
		`{"maxLength":9999999999}`:                 "whole number from 0 to 1073741824",
		`{"minimum":"1"}`:                          "#/minimum: it must be a number",
		`{"minimum":1e500}`:                        "at most 400 digits",
		`{"multipleOf":0}`:                         "more than 0",
		`{"multipleOf":0.0000123457}`:              "the multiples of",
		`{"anyOf":{}}`:                             "#/anyOf",
		`{"required":"a"}`:                         "#/required",
		`{"required":[1]}`:                         "#/required",
		`{"properties":[]}`:                        "#/properties",
		`{"properties":{"a":7}}`:                   "#/properties/a: a schema must be",
		`{"$ref":"other.json"}`:                    "leads out of the schema",
		`{"$ref":"#/$defs/a"}`:                     "leads nowhere",
		`{"$ref":5}`:                               "#/$ref: it must be a string",
		`{"$ref":"#"}`:                             "#: it refers to itself",
		`{"anyOf":[{"$ref":"#"},{"type":"null"}]}`: "begins with itself",
		`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`:                                        "no text at all",
		`{"type":"string","minLength":3,"maxLength":2}`:                                                             "no text at all",
		`{"allOf":[{"type":"string"},{"type":"null"}]}`:                                                             "no text at all",
		`{"minProperties":3,"additionalProperties":true,"properties":{"a":{}}}`:                                     "minProperties cannot be enforced",
		`{"type":"string","pattern":"a.{300}b","maxLength":5000}`:                                                   "more than 20000 states",
		`{"type":"string","minLength":1000000,"pattern":"a"}`:                                                       "more than 20000 states",
		`{"const":"x","pattern":"(a{100000})"}`:                                                                     "values of enum it takes more than 20000 states",
		strings.Repeat(`{"items":`, 200) + "{}" + strings.Repeat("}", 200):                                          "nested more than 128 deep",
		`{"type":"object","properties":{"a":true,"b":true},"maxProperties":1000000000,"additionalProperties":true}`: "more than 20000 states",
	} {
		g, err := Parse([]byte(schema), Options{})
		if _, err = grammartest.Start(t, g, err); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: the error is %v, want one with %q", schema, err, want)
		}
	}
	if _, err := Object(Options{Spaces: -1}); err == nil {
		t.Error("-1 characters of white space are taken")
	}
}

// TestFormats writes random texts of every format, which the other implementation must find valid.
func TestFormats(t *testing.T) {
	for name := range formats {
		schema := fmt.Sprintf(`{"type":"string","format":%q}`, name)
		g, err := Parse([]byte(schema), Options{})
		m := grammartest.MustStart(t, g, err)
		other := validator(t, schema)
		rng := grammartest.Rand(name)
		for range 300 {
			if text, ok := grammartest.Write(t, m, grammartest.ByteTokens(), rng, 40); ok {
				if err := isValid(t, other, text); err != nil {
					t.Errorf("%s: %s: %v", name, text, err)
					break
				}
			}
		}
	}
	g, err := Parse([]byte(`{"format":"date-time"}`), Options{})
	m := grammartest.MustStart(t, g, err)
	for text, want := range map[string]bool{
		`"2000-02-29T23:59:59.123Z"`: true, `"1900-02-29T00:00:00Z"`: false, `"2024-02-29T00:00:00+14:00"`: true, `"2023-02-29T00:00:00Z"`: false,
		`"2024-04-31T00:00:00Z"`: false, `"2024-12-31T24:00:00Z"`: false, `"2024-12-31"`: false,
	} {
		if grammartest.Reads(m, text) != want {
			t.Errorf("%s is a date-time: %v, want %v", text, !want, want)
		}
	}
}

func FuzzJSONSchema(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","properties":{"a":{"type":"string","maxLength":9},"b":{"$ref":"#"}},"required":["a"]}`,
		`{"anyOf":[{"type":"number","minimum":-1.5,"multipleOf":0.5},{"enum":["a",null,{"b":[1]}]}]}`,
		`{"allOf":[{"type":"array","prefixItems":[true],"maxItems":3},{"items":{"type":"integer"}}]}`,
		`{"type":"string","format":"date","pattern":"^2","minLength":2}`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"type":["string","null"],"pattern":"\\p{L}+"}}}`,
		`{"type":"object","additionalProperties":{"type":"boolean"},"minProperties":1,"maxProperties":4}`,
	} {
		f.Add(s, false, 0)
	}
	f.Fuzz(func(t *testing.T, schema string, open bool, spaces int) {
		g, err := Parse([]byte(schema), Options{Open: open, Spaces: spaces})
		m, err := grammartest.Start(t, g, err)
		if err != nil {
			return
		}
		if text, ok := grammartest.Write(t, m, grammartest.ByteTokens(), grammartest.Rand(schema), 30); ok {
			if _, err := readJSON([]byte(text)); err != nil && !strings.Contains(err.Error(), "twice") {
				t.Errorf("wrote %s: %v", text, err)
			}
		}
	})
}
