package schema

import (
	"encoding/json"
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// object writes a JSON object whose members come in the order drawn.
type object struct{ members []string }

func (o *object) add(key, value string) { o.members = append(o.members, quote(key)+":"+value) }

func (o *object) maybe(t *rapid.T, key string, values ...string) {
	if i := rapid.IntRange(-2, len(values)-1).Draw(t, key); i >= 0 {
		o.add(key, values[i])
	}
}

func (o *object) String() string { return "{" + strings.Join(o.members, ",") + "}" }

// drawSchema draws a schema of the features that are supported. Rules in $defs are referred to only from within arrays
// and objects, so that none begins with itself.
func drawSchema(t *rapid.T, depth int, nested bool) string {
	kinds := []string{"string", "string", "number", "integer", "constant", "boolean", "enum", "types"}
	if depth > 0 {
		kinds = append(kinds, "object", "object", "object", "array", "array", "anyOf", "allOf")
		if nested {
			kinds = append(kinds, "ref")
		}
	}
	o := &object{}
	inner := func(nested bool) string { return drawSchema(t, depth-1, nested) }
	list := func(nested bool) string {
		return "[" + strings.Join([]string{inner(nested), inner(nested)}[:rapid.IntRange(1, 2).Draw(t, "choices")], ",") + "]"
	}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "constant":
		return rapid.SampledFrom([]string{"true", "{}", `{"type":"null"}`, "true", "{}", "false"}).Draw(t, "schema")
	case "boolean":
		return `{"type":"boolean"}`
	case "string":
		o.add("type", `"string"`)
		drawStringBounds(t, o)
	case "number", "integer":
		o.add("type", quote(kind))
		drawNumberBounds(t, o)
	case "enum":
		o.maybe(t, "type", `"string"`, `["integer","string"]`, `"object"`)
		o.maybe(t, "minimum", "1")
		o.maybe(t, "maxLength", "1")
		o.add("enum", rapid.SampledFrom([]string{`["a","ab",1,2.5]`, `[null,true,"é\n\"",{"a":1},[1,"x"]]`, `[-3,0,"a"]`}).Draw(t, "enum"))
		if rapid.Bool().Draw(t, "has const") {
			o.members[len(o.members)-1] = `"const":` + rapid.SampledFrom([]string{`"a"`, "1", `{"b":[],"a":{}}`}).Draw(t, "const")
		}
	case "types":
		o.add("type", rapid.SampledFrom([]string{`["string","null"]`, `["integer","boolean"]`, `["number","array","object"]`}).Draw(t, "types"))
		drawStringBounds(t, o)
		drawNumberBounds(t, o)
	case "array":
		o.add("type", `"array"`)
		if rapid.Bool().Draw(t, "has items") {
			o.add("items", inner(true))
		}
		if rapid.Bool().Draw(t, "has prefix") {
			o.add("prefixItems", list(true))
		}
		o.maybe(t, "minItems", "0", "1", "2")
		o.maybe(t, "maxItems", "0", "1", "2", "3")
	case "object":
		drawObject(t, o, inner)
	case "anyOf", "allOf":
		if rapid.IntRange(0, 3).Draw(t, "has siblings") == 0 {
			drawObject(t, o, inner)
		}
		o.add(kind, list(nested))
	case "ref":
		o.add("$ref", quote("#/$defs/"+rapid.SampledFrom([]string{"x", "y~0~1"}).Draw(t, "def")))
	}
	return o.String()
}

func drawStringBounds(t *rapid.T, o *object) {
	o.maybe(t, "minLength", "0", "1", "2")
	o.maybe(t, "maxLength", "0", "1", "3", "100")
	switch rapid.IntRange(0, 5).Draw(t, "form") {
	case 0:
		o.add("pattern", quote(rapid.SampledFrom([]string{`^[ab]*$`, `^a|b$`, `b`, `^[^a]{1,3}$`, `^(ab|é){1,2}$`, `[\n"\\]`}).Draw(t, "pattern")))
	case 1:
		o.add("format", rapid.SampledFrom([]string{`"date"`, `"uuid"`, `"ipv4"`}).Draw(t, "format"))
	}
}

func drawNumberBounds(t *rapid.T, o *object) {
	o.maybe(t, "minimum", "0", "-2", "1.5", "-0.25", "9")
	o.maybe(t, "exclusiveMinimum", "0", "-2", "1.5", "10")
	o.maybe(t, "maximum", "0", "11", "2.5", "-1", "1e2")
	o.maybe(t, "exclusiveMaximum", "0", "12", "2.5", "100")
	o.maybe(t, "multipleOf", "1", "2", "0.5", "0.25", "3", "10")
}

func drawObject(t *rapid.T, o *object, inner func(bool) string) {
	o.add("type", `"object"`)
	properties := &object{}
	for _, name := range []string{"a", "b", "é\""} {
		if rapid.Bool().Draw(t, "has "+name) {
			properties.add(name, inner(true))
		}
	}
	if len(properties.members) > 0 || rapid.Bool().Draw(t, "declares") {
		o.add("properties", properties.String())
	}
	o.maybe(t, "required", `["a"]`, `["b","a"]`, `["c"]`, `[]`)
	o.maybe(t, "additionalProperties", "false", "true", `{"type":"integer"}`)
	if rapid.IntRange(0, 3).Draw(t, "counted") == 0 {
		o.maybe(t, "minProperties", "0", "1", "2")
		o.maybe(t, "maxProperties", "0", "1", "2")
	}
}

// drawInstance draws a value that has a chance to satisfy a schema.
func drawInstance(t *rapid.T, root, schema any, depth int) any {
	m, _ := schema.(map[string]any)
	if depth < 0 || m == nil || rapid.IntRange(0, 9).Draw(t, "astray") == 0 {
		return rapid.SampledFrom([]any{nil, true, "", "a", "abc", 0, 1, -2, 2.5, []any{}, []any{1, "a"}, map[string]any{}, map[string]any{"a": 1}}).Draw(t, "value")
	}
	if r, ok := m["$ref"].(string); ok {
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(strings.TrimPrefix(r, "#/$defs/"))
		return drawInstance(t, root, root.(map[string]any)["$defs"].(map[string]any)[name], depth-1)
	}
	for _, k := range []string{"anyOf", "allOf"} {
		if list, ok := m[k].([]any); ok && rapid.Bool().Draw(t, "by "+k) {
			return drawInstance(t, root, rapid.SampledFrom(list).Draw(t, k), depth-1)
		}
	}
	if list, ok := m["enum"].([]any); ok {
		return rapid.SampledFrom(list).Draw(t, "enum")
	}
	if v, ok := m["const"]; ok {
		return v
	}
	types, ok := m["type"].([]any)
	if !ok {
		types = []any{m["type"]}
	}
	switch rapid.SampledFrom(types).Draw(t, "type") {
	case "string":
		return rapid.SampledFrom([]string{"", "a", "ab", "b", "xb", "aé", "abé", "\"\n\\", "2024-02-29", "2023-02-29", "1.2.3.4", "123e4567-e89b-12d3-a456-426614174000"}).Draw(t, "string")
	case "integer":
		return rapid.IntRange(-3, 102).Draw(t, "integer")
	case "number":
		return json.Number(fmt.Sprint(float64(rapid.IntRange(-12, 50).Draw(t, "number")) / 4))
	case "boolean":
		return true
	case "array":
		list := []any{}
		prefix, _ := m["prefixItems"].([]any)
		for i := range rapid.IntRange(0, 3).Draw(t, "items") {
			item := m["items"]
			if i < len(prefix) {
				item = prefix[i]
			}
			list = append(list, drawInstance(t, root, item, depth-1))
		}
		return list
	case "object":
		o := map[string]any{}
		properties, _ := m["properties"].(map[string]any)
		for _, name := range []string{"a", "b", "é\"", "c"} {
			if rapid.IntRange(0, 2).Draw(t, "has "+name) > 0 {
				s := properties[name]
				if s == nil {
					s = m["additionalProperties"]
				}
				o[name] = drawInstance(t, root, s, depth-1)
			}
		}
		return o
	}
	return nil
}
