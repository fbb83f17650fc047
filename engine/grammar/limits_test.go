package grammar

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/engine/grammar/grammartest"
)

// bombs are grammars that are small and make much of themselves.
var bombs = map[string]func() (*Grammar, error){
	"exponential determinisation": func() (*Grammar, error) { return FromRegex(`(a|b)*a(a|b){40}`) },
	"nested counters": func() (*Grammar, error) {
		return FromRegex(`(([a-c]*[a-d]){300}){300}(a|b|abab){200}(b|a){12}a.{40}`)
	},
	"ambiguous counters":      func() (*Grammar, error) { return FromRegex(`((a{0,1000}){0,1000}){0,1000}`) },
	"counters begun anywhere": func() (*Grammar, error) { return FromRegex(`.*[a-z]{900}.*`) },
	"all of Unicode, often":   func() (*Grammar, error) { return FromRegex(strings.Repeat(`[\p{L}\p{N}]\P{L}`, 2000)) },
	"large counts":            func() (*Grammar, error) { return FromRegex(`(a{1000000000}){1000000000}`) },
	"many alternatives":       func() (*Grammar, error) { return FromRegex(strings.Repeat(`a|b|`, 200_000) + "c") },
	"many anchors":            func() (*Grammar, error) { return FromRegex(strings.Repeat(`(a?|$)`, 1000)) },
	"quantifiers": func() (*Grammar, error) {
		return FromRegex(strings.Repeat(`(`, 100) + "a" + strings.Repeat(`{9})`, 100))
	},
	"long literal": func() (*Grammar, error) { return FromRegex(strings.Repeat(`abcdefgh`, 100_000)) },
	"doubling rules": func() (*Grammar, error) {
		var s strings.Builder
		s.WriteString("root ::= r0\n")
		for i := range 100 {
			s.WriteString("r" + strconv.Itoa(i) + " ::= r" + strconv.Itoa(i+1) + " r" + strconv.Itoa(i+1) + "\n")
		}
		return FromGBNF(s.String() + "r100 ::= \"a\"")
	},
	"chain of rules": func() (*Grammar, error) {
		var s strings.Builder
		s.WriteString("root ::= r0\n")
		for i := range 15000 {
			s.WriteString("r" + strconv.Itoa(i) + " ::= \"a\" r" + strconv.Itoa(i+1) + "\n")
		}
		return FromGBNF(s.String() + "r15000 ::= \"a\"")
	},
	"all ways to nest": func() (*Grammar, error) {
		return FromGBNF(`root ::= "a" root root | "a" root "x" root | "a" a | "a"` + "\n" + `a ::= "a" (a | root) "x" | "a" (root | a) "y" | "a"`)
	},
	"schema: crossed choices": func() (*Grammar, error) {
		return schemaOf(`{"allOf":[` + many(20, `{"anyOf":[{"minLength":%d},{"maxLength":1%d},{"pattern":"a%d"},{"format":"date"}]}`) + `]}`)
	},
	"schema: large enum": func() (*Grammar, error) { return schemaOf(`{"enum":[` + many(40_000, `"value %d"`) + `]}`) },
	"schema: optional properties": func() (*Grammar, error) {
		return schemaOf(`{"properties":{` + many(4000, `"property %d":{"type":"string"}`) + `}}`)
	},
	"schema: counted properties": func() (*Grammar, error) {
		return schemaOf(`{"properties":{` + many(90, `"p%d":{"type":"string"}`) + `},"minProperties":50,"additionalProperties":false}`)
	},
	"schema: chain of references": func() (*Grammar, error) {
		return schemaOf(`{"$ref":"#/$defs/d0","$defs":{` + many(8_000, `"d%d":{"$ref":"#/$defs/d%[1]dx"},"d%[1]dx":{"type":"array","items":{"$ref":"#/$defs/d0"}}`) + `}}`)
	},
	"schema: all properties of all": func() (*Grammar, error) {
		return schemaOf(`{"allOf":[` + many(3000, `{"properties":{"p%d":{"type":"string"}}}`) + `]}`)
	},
	"schema: patterns over enum": func() (*Grammar, error) {
		return schemaOf(`{"allOf":[` + many(200, `{"pattern":"^.*%d?.*[a-z]{200}?"}`) + `],"enum":[` + many(10_000, `"value %d"`) + `]}`)
	},
	"schema: patterns together": func() (*Grammar, error) {
		return schemaOf(`{"allOf":[` + many(30, `{"pattern":"a.{%d}b"}`) + `]}`)
	},
	"schema: counts": func() (*Grammar, error) {
		return schemaOf(`{"maxItems":1000000000,"minItems":999999999,"items":{"type":"array","minItems":1000000,"items":{"type":"string","minLength":1000000}}}`)
	},
	"schema: long names": func() (*Grammar, error) {
		return schemaOf(`{"properties":{"` + strings.Repeat("n", 500_000) + `":true},"additionalProperties":true}`)
	},
	"schema: digits": func() (*Grammar, error) {
		return schemaOf(`{"type":"number","multipleOf":9999,"minimum":-1e300,"maximum":1.` + strings.Repeat("7", 300) + `}`)
	},
	"schema: depth": func() (*Grammar, error) {
		return schemaOf(strings.Repeat(`{"anyOf":[true,`, 120) + "{}" + strings.Repeat("]}", 120))
	},
}

// TestBombs gives grammars made to take long. Each must end in masks or in a sentence, and soon.
func TestBombs(t *testing.T) {
	for name, make := range bombs {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			g, err := make()
			m, err := grammartest.Start(t, g, err)
			if err == nil {
				mask := [9]uint32{}
				for range 100 {
					if err = m.Mask(mask[:]); err == nil {
						err = m.Accept(first(mask[:]))
					}
					if err != nil {
						break
					}
				}
			}
			// It takes a second at most; the machine may have ten other things to do.
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("it took %v", took)
			}
			t.Logf("%v: %.200v", time.Since(begin), err)
		})
	}
}

func schemaOf(text string) (*Grammar, error) {
	return FromJSONSchema([]byte(text), Options{})
}

// first is the first token from a on that a mask allows, or the first at all.
func first(mask []uint32) int32 {
	for i := range int32(256) {
		if token := (i + 'a') % 256; mask[token/32]>>(token%32)&1 == 1 {
			return token
		}
	}
	return 256
}

// many is a list of n texts with their number in them.
func many(n int, format string) string {
	var list []string
	for i := range n {
		list = append(list, strings.Replace(strings.ReplaceAll(format, "%[1]d", strconv.Itoa(i+1)), "%d", strconv.Itoa(i), -1))
	}
	return strings.Join(list, ",")
}

// TestCompilingAllocates: a schema of 2,000 optional fields, whose names begin alike, names millions of states on the way. What is allocated for it is a small part of the 665 MiB that
// it was once, when neighbours' answers waited for the garbage collector.
func TestCompilingAllocates(t *testing.T) {
	g, err := schemaOf(`{"properties":{` + many(2000, `"field%d":{"type":"string","pattern":"^[a-z]{1,20}$"}`) + `}}`)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = grammartest.Start(t, g, nil)
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 200 {
		t.Errorf("compiling allocated %d MiB (%v)", took, err)
	}
}
