package automaton

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// letters are what random grammars are made of: bytes that split code points, that JSON escapes, and plain ones.
var letters = []rune{'a', 'b', '"', 'é', 'è', '中'}

// drawExpr draws a language over letters that may call rules. Rules with a higher number than `below` may be called
// anywhere, the others only where a letter came before, so that no rule begins with itself.
func drawExpr(t *rapid.T, rules, below, depth int, consumed bool) syntax.Expr {
	kinds := []string{"text", "class", "class", "text"}
	if depth > 0 {
		kinds = append(kinds, "seq", "seq", "alt", "alt", "repeat", "ref", "ref", "quoted", "graph")
	}
	some := func(what string) int { return rapid.IntRange(0, 3).Draw(t, what) }
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "text":
		return syntax.Text(rapid.SliceOfN(rapid.SampledFrom(letters), 0, 3).Draw(t, "text"))
	case "class":
		return syntax.ClassOf(string(rapid.SliceOfN(rapid.SampledFrom(letters), 0, 3).Draw(t, "class")))
	case "seq":
		x := syntax.Seq{}
		for range some("parts") {
			y := drawExpr(t, rules, below, depth-1, consumed)
			x = append(x, y)
			consumed = consumed || !syntax.Nullable(y, make([]bool, rules)) && noRef(y)
		}
		return x
	case "alt":
		x := syntax.Alt{}
		for range some("options") {
			x = append(x, drawExpr(t, rules, below, depth-1, consumed))
		}
		return x
	case "repeat":
		x := syntax.Repeat{X: drawExpr(t, rules, below, depth-1, consumed), Min: some("min"), Max: -1}
		if rapid.Bool().Draw(t, "bounded") {
			x.Max = x.Min + some("more")
		}
		return x
	case "graph":
		x := syntax.Graph{Final: rapid.SliceOfN(rapid.Bool(), 1, 3).Draw(t, "final")}
		node := rapid.IntRange(0, len(x.Final)-1)
		for range some("arcs") {
			a := syntax.GraphArc{From: node.Draw(t, "from"), To: node.Draw(t, "to"), X: nil}
			if rapid.Bool().Draw(t, "arc has text") {
				a.X = drawExpr(t, rules, below, depth-1, consumed)
			}
			x.Arcs = append(x.Arcs, a)
		}
		return x
	case "quoted":
		return syntax.Quoted{X: drawExpr(t, 0, 0, depth-1, consumed)}
	default:
		first := below + 1
		if consumed {
			first = 0
		}
		if first >= rules {
			return syntax.Text("b")
		}
		return syntax.Ref(rapid.IntRange(first, rules-1).Draw(t, "rule"))
	}
}

// drawTuning draws the settings that change how masks are found, but must not change them.
func drawTuning(t *rapid.T) tuning {
	u := defaultTuning()
	u.inlineWeight = rapid.SampledFrom([]int{u.inlineWeight, 0}).Draw(t, "light")
	u.unrollWeight = rapid.SampledFrom([]int{u.unrollWeight, 1}).Draw(t, "unrolled")
	u.maxContexts = rapid.SampledFrom([]int{u.maxContexts, 0, 2}).Draw(t, "contexts")
	u.loopVisits = rapid.SampledFrom([]int{u.loopVisits, 1, 2}).Draw(t, "visits")
	u.warmNodes = rapid.SampledFrom([]int{u.warmNodes, 1}).Draw(t, "much")
	u.memory = rapid.SampledFrom([]int{u.memory, 10_000}).Draw(t, "memory")
	return u
}

func noRef(x syntax.Expr) bool {
	none := true
	refsIn(x, func(syntax.Ref) { none = false })
	return none
}

func drawGrammar(t *rapid.T) *syntax.Grammar {
	n := rapid.IntRange(1, 4).Draw(t, "rules")
	g := &syntax.Grammar{}
	for i := range n {
		g.Rules = append(g.Rules, syntax.Rule{Name: fmt.Sprint("rule", i), Body: drawExpr(t, n, i, 3, false)})
	}
	return g
}

// smallVocabulary is tokens of one to four bytes, all the single bytes of letters among them, a special token and an
// end token.
func smallVocabulary(t *rapid.T) *Vocabulary {
	var pool []byte
	for _, r := range letters {
		pool = append(pool, string(r)...)
	}
	pool = append(pool, '\\', 'n')
	tokens := [][]byte{nil} // a special token
	for _, b := range pool {
		tokens = append(tokens, []byte{b})
	}
	more := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom(pool), 1, 7), 0, 20).Draw(t, "tokens")
	tokens = append(append(tokens, more...), []byte("</s>"))
	v, err := NewVocabulary(Tokens{Bytes: tokens, Ends: []int32{int32(len(tokens) - 1)}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestMaskIsExact walks random grammars with random tokens. At every place the mask must be the tokens after which the
// text is still the beginning of a sentence, by a reference that tries everything.
func TestMaskIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrammar(t)
		v := smallVocabulary(t)
		o := newOracle(g)
		a, err := compile(g, v, drawTuning(t), nil)
		if err != nil {
			if strings.Contains(err.Error(), "begins with itself") || !o.has[g.Root] {
				return
			}
			t.Fatal(err)
		}
		checkWalk(t, a, o, "")
	})
}

// TestMaskWithCounters is the same for repetitions too long to unroll, near their bounds.
func TestMaskWithCounters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.IntRange(0, 400).Draw(t, "min")
		high := low + rapid.SampledFrom([]int{0, 1, 7, 300}).Draw(t, "more")
		body := rapid.SampledFrom([]syntax.Expr{syntax.Text("a"), syntax.ClassOf("aé中"), syntax.Alt{syntax.Text("a"), syntax.Text("ab")}, syntax.Quoted{X: syntax.ClassOf("a\"")}, syntax.Optional(syntax.Text("a"))}).Draw(t, "body")
		g := &syntax.Grammar{Rules: []syntax.Rule{{Name: "root", Body: syntax.Seq{syntax.Text("b"), syntax.Repeat{X: body, Min: low, Max: high}, syntax.Text("è")}}}}
		v := smallVocabulary(t)
		a, err := compile(g, v, drawTuning(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		count := rapid.SampledFrom([]int{0, low - 3, low - 1, low, high - 5, high - 1, high}).Draw(t, "count")
		checkWalk(t, a, newOracle(g), "b"+strings.Repeat("a", max(count, 0)))
	})
}

// checkWalk compares all masks on a random way from the place after the text written.
func checkWalk(t *rapid.T, a *Automaton, o *oracle, written string) {
	if rapid.Bool().Draw(t, "warm") {
		a.warm()
	}
	m, err := a.Start()
	if err != nil {
		t.Fatal(err)
	}
	v := a.vocab
	for _, b := range []byte(written) {
		id := slices.IndexFunc(v.bytes, func(t []byte) bool { return len(t) == 1 && t[0] == b })
		if err := m.Accept(int32(id)); err != nil {
			t.Fatal(err)
		}
	}
	mask := make([]uint32, v.MaskWords())
	for range rapid.IntRange(1, 12).Draw(t, "steps") {
		sentence, _ := o.read(written)
		if m.Done() != sentence {
			t.Fatalf("after %q: Done is %v, want %v", written, m.Done(), sentence)
		}
		if err := m.Mask(mask); err != nil {
			t.Fatal(err)
		}
		var may []int32
		for id, b := range v.bytes {
			_, want := o.read(written + string(b))
			if len(b) == 0 {
				want = false
			}
			if v.isEnd(int32(id)) {
				want = sentence
			}
			if got := mask[id/32]>>(id%32)&1 == 1; got != want {
				t.Fatalf("after %q: token %q is allowed: %v, want %v", written, b, got, want)
			}
			if c := *m; (c.Accept(int32(id)) == nil) != want {
				t.Fatalf("after %q: token %q is accepted: %v, want %v", written, b, !want, want)
			}
			if want && !v.isEnd(int32(id)) {
				may = append(may, int32(id))
			}
		}
		if len(may) == 0 {
			return
		}
		next := rapid.SampledFrom(may).Draw(t, "next")
		if err := m.Accept(next); err != nil {
			t.Fatal(err)
		}
		written += string(v.bytes[next])
	}
}
