package grammar

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/engine/grammar/grammartest"
)

// thirty is a schema of thirty fields of ten kinds, and an answer.
func thirty() (schema, text string) {
	kinds := []struct{ schema, value string }{
		{`{"type":"string"}`, `"Ada \"Countess\" Lovelace, née Byron"`}, {`{"type":"integer","minimum":0,"maximum":2100}`, `1815`},
		{`{"type":"number"}`, `-12.5e3`}, {`{"type":"boolean"}`, `true`}, {`{"enum":["red","green","blue","none of these"]}`, `"green"`},
		{`{"type":"array","items":{"type":"string"},"maxItems":5}`, `["mathematics", "poetry"]`}, {`{"type":"string","format":"date-time"}`, `"1843-08-01T12:00:00Z"`},
		{`{"anyOf":[{"type":"string","maxLength":40},{"type":"null"}]}`, `"London"`}, {`{"type":"string","pattern":"^[A-Z]{2}-\\d{4}$"}`, `"AB-1234"`},
		{`{"type":"object","properties":{"street":{"type":"string"},"number":{"type":"integer"}},"required":["street"]}`, `{"street": "St James's Square", "number": 12}`},
	}
	var properties, required, values []string
	for i := range 30 {
		k, name := kinds[i%len(kinds)], fmt.Sprintf("field_%c%d", 'a'+i%26, i)
		properties = append(properties, fmt.Sprintf("%q:%s", name, k.schema))
		values = append(values, fmt.Sprintf("%q: %s", name, k.value))
		if i%3 > 0 {
			required = append(required, strconv.Quote(name))
		}
	}
	return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s]}`, strings.Join(properties, ","), strings.Join(required, ",")),
		"{" + strings.Join(values, ", ") + "}"
}

// benchAnswers are grammars and texts that models write under them.
func benchAnswers() map[string]benchAnswer {
	schema := func(text string) func() (*Grammar, error) {
		return func() (*Grammar, error) { return FromJSONSchema([]byte(text), Options{Spaced: true}) }
	}
	const object = `{"name": "Ada Lovelace", "born": 1815, "tags": ["mathematics", "poetry", {"deep": [[1, 2], [3.5, -4e7]]}], "note": "She wrote \"Note G\" – the first programme.", "ok": true, "none": null}`
	const prose = `"The engine weaves algebraical patterns just as the Jacquard loom weaves flowers and leaves; it has no pretensions whatever to originate anything.\n\nIt can do whatever we know how to order it to perform (Menabrea, 1842 – «Notions sur la machine»): 数学 and \"poetry\"."`
	fields, values := thirty()
	call := func() (*Grammar, error) {
		arguments, err := FromJSONSchema([]byte(fields), Options{Spaced: true})
		return Seq(Free([]string{"<tool_call>"}, nil), Optional(Seq(Text("<tool_call>\n"), arguments, Text("\n</tool_call>")))), err
	}
	return map[string]benchAnswer{
		"json_object": {func() (*Grammar, error) { return JSONObject(Options{Spaced: true}) }, object},
		"json_object, any white space": {func() (*Grammar, error) { return JSONObject(Options{Spaces: 20}) },
			strings.NewReplacer(`{"`, "{\n  \"", `, "`, ",\n  \"", `}`, "\n}").Replace(object)},
		"30 fields": {schema(fields), values},
		"strings": {schema(`{"type":"object","properties":{"title":{"type":"string","maxLength":200},"body":{"type":"string","minLength":10,"maxLength":4000},"quote":{"type":"string"}},"required":["title","body","quote"]}`),
			`{"title": ` + prose[:60] + `", "body": ` + prose + `, "quote": ` + prose + `}`},
		"recursive": {schema(`{"$defs":{"node":{"type":"object","properties":{"value":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["value","children"]}},"$ref":"#/$defs/node"}`),
			`{"value": "root", "children": [{"value": "a", "children": []}, {"value": "b c", "children": [{"value": "deep", "children": [{"value": "", "children": []}]}]}]}`},
		"regex": {func() (*Grammar, error) {
			return FromRegex(`(\w+@\w+\.(com|org)), \d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z: [^\n]{1,500}`)
		},
			`ada@lovelace.org, 2024-02-29T23:59:59Z: The engine weaves algebraical patterns, just as the loom weaves flowers.`},
		"choices": {func() (*Grammar, error) {
			return FromChoices([]string{"positive", "negative", "neutral", "mixed"})
		}, `neutral`},
		"text with a call": {call, strings.Trim(prose, `"`) + " <b> <tool_call>\n" + values + "\n</tool_call>"},
	}
}

type benchAnswer struct {
	make func() (*Grammar, error)
	text string
}

// BenchmarkMask measures a mask and an Accept per token of an answer, over 128,256 tokens. "first" is the first request
// with a grammar, as Cache.Get leaves it; the other figures are of requests that follow it.
func BenchmarkMask(b *testing.B) {
	vocabulary, v := grammartest.Llama3(b)
	mask := make([]uint32, v.MaskWords())
	answers := benchAnswers()
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		c := answers[name]
		tokens := grammartest.Split(vocabulary, c.text)
		b.Run(name, func(b *testing.B) {
			run := func(a *Automaton) (took []time.Duration) {
				m, err := a.Start()
				if err != nil {
					b.Fatal(err)
				}
				for _, id := range tokens {
					begin := time.Now()
					if err := m.Mask(mask); err != nil {
						b.Fatal(err)
					}
					if err := m.Accept(id); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(begin))
				}
				return took
			}
			var compile, first, warm []time.Duration
			var a *Automaton
			for range 5 {
				begin := time.Now()
				var err error
				if a, err = NewCache(v, 0).Get(b.Context(), "", "", func(*Meter) (*Grammar, error) { return c.make() }); err != nil {
					b.Fatal(err)
				}
				compile = append(compile, time.Since(begin))
				first = append(first, run(a)...)
			}
			for b.Loop() {
				warm = append(warm, run(a)...)
			}
			slices.Sort(first)
			slices.Sort(warm)
			for unit, d := range map[string]time.Duration{
				"µs": warm[len(warm)/2], "p99-µs": warm[len(warm)*99/100],
				"first-µs": first[len(first)/2], "first-p99-µs": first[len(first)*99/100], "first-max-µs": first[len(first)-1],
			} {
				b.ReportMetric(float64(d.Nanoseconds())/1000, unit)
			}
			slices.Sort(compile)
			b.ReportMetric(float64(compile[len(compile)/2].Microseconds())/1000, "compile-ms")
			b.ReportMetric(float64(a.Bytes())/1024, "KiB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkVocabulary measures what a model pays once.
func BenchmarkVocabulary(b *testing.B) {
	tokens, _ := grammartest.Llama3(b)
	for b.Loop() {
		if _, err := NewVocabulary(tokens); err != nil {
			b.Fatal(err)
		}
	}
}
