package grammar

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// answers are grammars and texts that models write under them.
var answers = []struct {
	name string
	make func() (*Grammar, error)
	text string
}{
	{"gbnf-json", func() (*Grammar, error) { return FromGBNF(jsonGBNF) },
		`{"name": "Ada Lovelace", "born": 1815, "tags": ["mathematics", "poetry", {"deep": [[1, 2], [3.5, -4e7]]}], "note": "She wrote \"Note G\" – the first programme.", "ok": true}`},
	{"regex-date", func() (*Grammar, error) { return FromRegex(`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z`) },
		`2024-02-29T23:59:59Z`},
	{"choices", func() (*Grammar, error) { return FromChoices([]string{"positive", "negative", "neutral", "mixed"}) },
		`neutral`},
}

// BenchmarkMask measures a mask and an Accept per token of an answer, over 128,256 tokens. cold-µs is the first time
// through with a fresh automaton, worst-µs its slowest mask, and compile-µs what it takes to make the automaton.
func BenchmarkMask(b *testing.B) {
	v := needLlama3(b)
	mask := make([]uint32, v.MaskWords())
	for _, c := range answers {
		tokens := v.longestFirst([]byte(c.text))
		b.Run(c.name, func(b *testing.B) {
			run := func(m *Matcher, each func(time.Duration)) {
				for _, id := range tokens {
					begin := time.Now()
					if err := m.Mask(mask); err != nil {
						b.Fatal(err)
					}
					if err := m.Accept(id); err != nil {
						b.Fatal(err)
					}
					each(time.Since(begin))
				}
			}
			var compile, cold, worst []time.Duration
			var a *Automaton
			for range 5 {
				begin := time.Now()
				g, err := c.make()
				if err != nil {
					b.Fatal(err)
				}
				if a, err = Compile(g, v); err != nil {
					b.Fatal(err)
				}
				compile = append(compile, time.Since(begin))
				m, err := a.Start()
				if err != nil {
					b.Fatal(err)
				}
				var sum, most time.Duration
				run(m, func(d time.Duration) { sum, most = sum+d, max(most, d) })
				cold, worst = append(cold, sum/time.Duration(len(tokens))), append(worst, most)
			}
			for b.Loop() {
				m, err := a.Start()
				if err != nil {
					b.Fatal(err)
				}
				run(m, func(time.Duration) {})
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(tokens)), "µs/token")
			b.ReportMetric(median(compile), "compile-µs")
			b.ReportMetric(median(cold), "cold-µs/token")
			b.ReportMetric(median(worst), "worst-µs")
			b.ReportMetric(float64(a.size)/1024, "KiB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Microseconds())
}

// BenchmarkVocabulary measures what a model pays once.
func BenchmarkVocabulary(b *testing.B) {
	v := needLlama3(b)
	for b.Loop() {
		if _, err := NewVocabulary(Tokens{Bytes: v.bytes, Ends: v.ends}); err != nil {
			b.Fatal(err)
		}
	}
	nodes := 0
	for _, band := range v.bands {
		nodes += len(band.trie.nodes)
	}
	b.ReportMetric(float64(nodes), "nodes")
	b.Logf("bands: %s", bandSizes(v))
}

func bandSizes(v *Vocabulary) (s string) {
	for _, b := range v.bands {
		s += fmt.Sprintf(" ≤%d bytes: %d nodes;", b.longest, len(b.trie.nodes))
	}
	return s
}
