package schema

import (
	"strings"

	"pgregory.net/rapid"
)

// drawApplied draws a schema with the keywords that need to know what does not satisfy a schema, or which names and items others
// look at.
func drawApplied(t *rapid.T) string {
	inner := func() string { return drawSchema(t, 1, false) }
	o := &object{}
	if rapid.Bool().Draw(t, "typed") {
		o.add("type", rapid.SampledFrom([]string{`"object"`, `"array"`, `["object","string","integer"]`}).Draw(t, "type"))
	}
	names := []string{"a", "b", "ab"}
	name := func() string { return rapid.SampledFrom(names).Draw(t, "name") }
	for range rapid.IntRange(1, 3).Draw(t, "keywords") {
		var key, value string
		switch key = rapid.SampledFrom([]string{"not", "if", "oneOf", "properties", "required", "patternProperties", "propertyNames", "dependentSchemas",
			"dependentRequired", "contains", "uniqueItems", "unevaluatedProperties", "unevaluatedItems", "prefixItems", "allOf", "additionalProperties"}).Draw(t, "keyword"); key {
		case "not", "contains", "unevaluatedProperties", "unevaluatedItems", "additionalProperties":
			value = inner()
		case "if":
			value = inner() + `,"then":` + inner() + `,"else":` + inner()
		case "oneOf", "allOf", "prefixItems":
			value = "[" + inner() + "," + inner() + "]"
		case "properties", "dependentSchemas":
			value = `{` + quote(name()) + `:` + inner() + `}`
		case "required":
			value = "[" + quote(name()) + "]"
		case "dependentRequired":
			value = `{` + quote(name()) + `:[` + quote(name()) + `]}`
		case "patternProperties":
			value = `{` + quote(rapid.SampledFrom([]string{"^a", "b", "^[a-c]$"}).Draw(t, "pattern")) + `:` + inner() + `}`
		case "propertyNames":
			value = rapid.SampledFrom([]string{`{"pattern":"^[ab]+$"}`, `{"enum":["a","c"]}`, `{"maxLength":2}`, `{"not":{"const":"a"}}`}).Draw(t, "names")
		case "uniqueItems":
			value = `true,"items":` + rapid.SampledFrom([]string{`{"enum":[1,2,"a"]}`, `{"type":"boolean"}`}).Draw(t, "values")
		}
		if !strings.Contains(o.String(), quote(key)+":") && !(key == "uniqueItems" && strings.Contains(o.String(), `"items":`)) {
			o.add(key, value)
		}
	}
	if strings.Contains(o.String(), `"contains":`) {
		o.maybe(t, "minContains", "0", "2")
		o.maybe(t, "maxContains", "1", "3")
	}
	return o.String()
}
