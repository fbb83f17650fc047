package automaton

import (
	"github.com/ridge-llm/ridge/engine/grammar/dfa"
	"github.com/ridge-llm/ridge/engine/grammar/syntax"
)

// ruleSet is a grammar being compiled: its rules, those made on the way included, and what is known of them.
type ruleSet struct {
	tuning
	meter     *syntax.Meter
	rules     []syntax.Rule
	empty     []bool // rule has the empty text
	heavyLoop []bool // rule has a loop over many code points
	weights   []int  // weight of the rule's body
	inlined   []bool // rule is put in the place of its calls
}

func newRuleSet(g *syntax.Grammar, t tuning, meter *syntax.Meter) *ruleSet {
	n := len(g.Rules)
	s := &ruleSet{
		tuning: t, meter: meter,
		rules: append([]syntax.Rule(nil), g.Rules...),
		empty: make([]bool, n), heavyLoop: make([]bool, n), weights: make([]int, n), inlined: make([]bool, n),
	}
	callers := make([][]int, n)
	uses := make([]int, n)
	for i, r := range g.Rules {
		refsIn(r.Body, func(to syntax.Ref) {
			uses[to]++
			callers[to] = append(callers[to], i)
		})
	}
	s.findEmpty(callers)
	for _, i := range calleesFirst(g) {
		s.decideInline(i.rule, i.recursive || i.rule == g.Root, uses[i.rule])
	}
	return s
}

func refsIn(x syntax.Expr, f func(syntax.Ref)) {
	if r, ok := x.(syntax.Ref); ok {
		f(r)
	}
	syntax.Children(x, func(y syntax.Expr) { refsIn(y, f) })
}

// findEmpty finds the rules that have the empty text. A rule is looked at again when one it calls turns out to.
func (s *ruleSet) findEmpty(callers [][]int) {
	var pending []int
	for i := range s.rules {
		pending = append(pending, i)
	}
	for len(pending) > 0 {
		i := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if !s.empty[i] && syntax.Nullable(s.rules[i].Body, s.empty) {
			s.empty[i] = true
			pending = append(pending, callers[i]...)
		}
	}
}

const (
	manyRunes = 1000 // code points that make a loop heavy
	manyTimes = 16   // repetitions that count as a loop
)

// decideInline decides whether a rule is put in the place of its calls. That saves stack, and makes choices between rules that
// begin alike deterministic. Rules with a loop over most of Unicode (the inside of a string) stay apart unless they are
// used once: computing their mask is what takes time, and as a rule of its own it is computed once.
func (s *ruleSet) decideInline(i int, never bool, uses int) {
	body := s.rules[i].Body
	s.weights[i] = s.weight(body)
	s.heavyLoop[i] = s.hasHeavyLoop(body, false)
	s.inlined[i] = !never && (s.weights[i] <= s.inlineWeight && !s.heavyLoop[i] || uses == 1 && s.inlineWeight > 0)
}

func (s *ruleSet) hasHeavyLoop(x syntax.Expr, looped bool) bool {
	switch x := x.(type) {
	case syntax.Class:
		return looped && x.Size() >= manyRunes
	case syntax.Ref:
		return s.heavyLoop[x] && s.inlined[x]
	case syntax.Repeat:
		looped = looped || x.Max < 0 || x.Max > manyTimes
	case syntax.Graph:
		looped = true
	}
	heavy := false
	syntax.Children(x, func(y syntax.Expr) { heavy = heavy || s.hasHeavyLoop(y, looped) })
	return heavy
}

// maxWeight caps weights, so that sums of them do not overflow.
const maxWeight = 1 << 20

func (s *ruleSet) weight(x syntax.Expr) int {
	w := 0
	switch x := x.(type) {
	case syntax.Text:
		return min(len(x), maxWeight)
	case syntax.Class:
		if len(x) > 0 && x[len(x)-1].Hi >= 0x80 {
			return 4
		}
		return 1
	case syntax.Ref:
		if s.inlined[x] {
			return s.weights[x]
		}
		return 1
	case syntax.Repeat:
		one, copies := max(s.weight(x.X), 1), max(x.Min, x.Max, 1)
		if s.tooLarge(one, copies) {
			return 1
		}
		return one * copies
	case syntax.Graph:
		w = len(x.Final)
	}
	syntax.Children(x, func(y syntax.Expr) { w = min(w+s.weight(y), maxWeight) })
	return w
}

// Inline implements dfa.Rules.
func (s *ruleSet) Inline(r syntax.Ref) (syntax.Expr, bool) { return s.rules[r].Body, s.inlined[r] }

// Meter implements dfa.Rules.
func (s *ruleSet) Meter() *syntax.Meter { return s.meter }

// Nullable implements dfa.Rules.
func (s *ruleSet) Nullable(x syntax.Expr) bool { return syntax.Nullable(x, s.empty) }

// tooLarge reports whether a repetition is to be counted.
func (s *ruleSet) tooLarge(one, copies int) bool { return copies > 1 && copies > s.unrollWeight/one }

// Counted makes two rules for a large repetition: what is repeated, and the counter.
func (s *ruleSet) Counted(x syntax.Repeat, enc dfa.Encoding) (rule int32, mayBeEmpty, ok bool) {
	copies := max(x.Min, x.Max, 1)
	if copies == 1 || !s.tooLarge(max(s.weight(x.X), 1), copies) {
		return 0, false, false
	}
	min := x.Min
	if s.Nullable(x.X) {
		min = 0 // the texts that seem to be missing are empty
	}
	one := 0
	if r, ok := x.X.(syntax.Ref); ok {
		one = int(r)
	} else if enc == dfa.AsQuoted {
		one = s.add("a repeated part", syntax.Quoted{X: x.X})
	} else {
		one = s.add("a repeated part", x.X)
	}
	times := &syntax.Times{Body: one, Min: min, Max: x.Max}
	loop := s.add("a repetition", nil)
	s.rules[loop].Times = times
	s.empty[loop] = min == 0
	return int32(loop), min == 0, true
}

func (s *ruleSet) add(name string, body syntax.Expr) int {
	s.rules = append(s.rules, syntax.Rule{Name: name, Body: body})
	s.empty = append(s.empty, body != nil && s.Nullable(body))
	s.heavyLoop = append(s.heavyLoop, false)
	s.weights = append(s.weights, 1)
	s.inlined = append(s.inlined, false)
	return len(s.rules) - 1
}
