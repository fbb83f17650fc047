package schema

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// jsonTypes is a set of types as JSON Schema names them. Every integer is a number, so a set with typeNumber has
// typeInteger too.
type jsonTypes uint8

const (
	typeNull jsonTypes = 1 << iota
	typeBoolean
	typeObject
	typeArray
	typeString
	typeNumber
	typeInteger

	anyType = 1<<iota - 1
)

var typeNames = map[string]jsonTypes{
	"null": typeNull, "boolean": typeBoolean, "object": typeObject, "array": typeArray, "string": typeString,
	"number": typeNumber | typeInteger, "integer": typeInteger,
}

// keyword describes a keyword: whether it is an annotation, else the types it constrains, if not all, and the shape of its own
// value.
type keyword struct {
	silent bool
	types  jsonTypes
	shape  func(*jsonValue) string // what is wrong with the keyword's value
}

var keywords = map[string]keyword{
	"type":  {shape: isTypes},
	"enum":  {shape: isEnum},
	"const": {shape: isAny},
	"anyOf": {shape: isSchemas},
	"oneOf": {shape: isSchemas},
	"allOf": {shape: isSchemas},
	"not":   {shape: isSchema},
	"if":    {shape: isSchema},
	"then":  {shape: isSchema},
	"else":  {shape: isSchema},
	"$ref":  {shape: isString},

	"$dynamicRef": {shape: isString},

	"properties":           {types: typeObject, shape: isSchemaMap},
	"required":             {types: typeObject, shape: isStrings},
	"additionalProperties": {types: typeObject, shape: isSchema},
	"patternProperties":    {types: typeObject, shape: isSchemaMap},
	"propertyNames":        {types: typeObject, shape: isSchema},
	"minProperties":        {types: typeObject, shape: isCount},
	"maxProperties":        {types: typeObject, shape: isCount},
	"dependentRequired":    {types: typeObject, shape: isDependencies},
	"dependentSchemas":     {types: typeObject, shape: isSchemaMap},
	"dependencies":         {types: typeObject, shape: isDependencies},
	"items":                {types: typeArray, shape: isItems},
	"prefixItems":          {types: typeArray, shape: isSchemas},
	"additionalItems":      {types: typeArray, shape: isSchema},
	"contains":             {types: typeArray, shape: isSchema},
	"minContains":          {types: typeArray, shape: isCount},
	"maxContains":          {types: typeArray, shape: isCount},
	"minItems":             {types: typeArray, shape: isCount},
	"maxItems":             {types: typeArray, shape: isCount},
	"uniqueItems":          {types: typeArray, shape: isBool},
	"minLength":            {types: typeString, shape: isCount},
	"maxLength":            {types: typeString, shape: isCount},
	"pattern":              {types: typeString, shape: isString},
	"format":               {types: typeString, shape: isString},
	"minimum":              {types: typeNumber | typeInteger, shape: isDecimal},
	"maximum":              {types: typeNumber | typeInteger, shape: isDecimal},
	"exclusiveMinimum":     {types: typeNumber | typeInteger, shape: isExclusive},
	"exclusiveMaximum":     {types: typeNumber | typeInteger, shape: isExclusive},
	"multipleOf":           {types: typeNumber | typeInteger, shape: isFactor},

	"unevaluatedProperties": {types: typeObject, shape: isSchema},
	"unevaluatedItems":      {types: typeArray, shape: isSchema},

	fractional:   {types: typeNumber | typeInteger, shape: isAny},
	otherThan:    {types: typeString, shape: isAny},
	otherPattern: {types: typeString, shape: isAny},

	"title": silent, "description": silent, "default": silent, "examples": silent, "$comment": silent, "$schema": silent,
	"$id": silent, "deprecated": silent, "readOnly": silent, "writeOnly": silent, "contentEncoding": silent,
	"contentMediaType": silent, "contentSchema": silent, "$defs": silent, "definitions": silent, "$anchor": silent,
	"$dynamicAnchor": silent, "$vocabulary": silent,
}

var silent = keyword{silent: true, shape: isAny}

// check makes sure that every keyword of a schema is known and has a value of the right shape.
func (c *compiler) check(v *jsonValue) error {
	if c.checked[v] {
		return nil
	}
	if wrong := isSchema(v); wrong != "" {
		return errAt(v, "%s", wrong)
	}
	for i, key := range v.keys {
		if isExtension(key) {
			continue
		}
		k, ok := keywords[key]
		if !ok || strings.HasPrefix(key, "\x00") && !v.made() {
			return c.cannotKeyword(v.items[i], "the keyword %.80q is not supported", key)
		}
		if wrong := k.shape(v.items[i]); wrong != "" {
			return errAt(v.items[i], "%s", wrong)
		}
	}
	c.checked[v] = true
	return nil
}

// isExtension reports whether a keyword is somebody's own, which says nothing about values.
func isExtension(key string) bool { return strings.HasPrefix(key, "x-") }

func isAny(*jsonValue) string { return "" }

func isString(v *jsonValue) string {
	if v.kind != jsonString {
		return "it must be a string"
	}
	return ""
}

func isSchema(v *jsonValue) string {
	if v.kind != jsonObject && v.kind != jsonBool {
		return "a schema must be an object, true or false"
	}
	return ""
}

func isItems(v *jsonValue) string {
	if v.kind == jsonArray { // as prefixItems was written until draft 2019-09
		return ""
	}
	return isSchema(v)
}

func isSchemas(v *jsonValue) string {
	if v.kind != jsonArray || len(v.items) == 0 {
		return "it must be a list of at least one schema"
	}
	return ""
}

func isSchemaMap(v *jsonValue) string {
	if v.kind != jsonObject {
		return "it must be an object of schemas"
	}
	return ""
}

func isEnum(v *jsonValue) string {
	if v.kind != jsonArray {
		return "it must be a list of values"
	}
	return ""
}

func isStrings(v *jsonValue) string {
	if v.kind != jsonArray {
		return "it must be a list of strings"
	}
	for _, s := range v.items {
		if s.kind != jsonString {
			return "it must be a list of strings"
		}
	}
	return ""
}

func isBool(v *jsonValue) string {
	if v.kind != jsonBool {
		return "it must be true or false"
	}
	return ""
}

// isDependencies is what depends on properties: names, or a schema.
func isDependencies(v *jsonValue) string {
	if v.kind != jsonObject {
		return "it must be an object"
	}
	for _, x := range v.items {
		if wrong := isStrings(x); wrong != "" && isSchema(x) != "" {
			return wrong
		}
	}
	return ""
}

func isCount(v *jsonValue) string {
	d, ok := parseDecimal(v.text)
	n, err := strconv.Atoi(d.whole)
	if v.kind != jsonNumber || !ok || d.negative || d.fraction != "" || err != nil || n > syntax.MaxTimes {
		return fmt.Sprintf("it must be a whole number from 0 to %d", syntax.MaxTimes)
	}
	return ""
}

func isDecimal(v *jsonValue) string {
	if v.kind != jsonNumber {
		return "it must be a number"
	}
	if _, ok := parseDecimal(v.text); !ok {
		return fmt.Sprintf("it must be a number of at most %d digits, written out", maxDigits)
	}
	return ""
}

// countOf is the number that isCount has found right.
func countOf(v *jsonValue) int {
	d, _ := parseDecimal(v.text)
	n, _ := strconv.Atoi(d.whole)
	return n
}

// isExclusive is a bound, or until draft 4 whether the one beside it is meant so.
func isExclusive(v *jsonValue) string {
	if v.kind == jsonBool {
		return ""
	}
	return isDecimal(v)
}

func isFactor(v *jsonValue) string {
	if wrong := isDecimal(v); wrong != "" {
		return wrong
	}
	if d, _ := parseDecimal(v.text); d.negative || d.isZero() {
		return "it must be more than 0"
	}
	return ""
}

func isTypes(v *jsonValue) string {
	names := v.items
	if v.kind != jsonArray {
		names = []*jsonValue{v}
	}
	for _, n := range names {
		if n.kind != jsonString || typeNames[n.text] == 0 {
			return fmt.Sprintf("%.80q is not a type; there are null, boolean, object, array, string, number and integer", n.text)
		}
	}
	if len(names) == 0 {
		return "it names no type"
	}
	return ""
}
