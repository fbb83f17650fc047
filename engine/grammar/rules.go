package grammar

// ruleSet is a grammar being compiled: its rules, those made on the way included, and what is known of them.
type ruleSet struct {
	tuning
	rules  []rule
	empty  []bool // rule has the empty text
	heavy  []bool // rule has a loop over many code points
	size   []int  // weight of the rule's body
	inward []bool // rule is put in the place of its calls
}

func newRuleSet(g *Grammar, t tuning) *ruleSet {
	n := len(g.rules)
	s := &ruleSet{
		tuning: t,
		rules:  append([]rule(nil), g.rules...),
		empty:  make([]bool, n), heavy: make([]bool, n), size: make([]int, n), inward: make([]bool, n),
	}
	callers := make([][]int, n)
	uses := make([]int, n)
	for i, r := range g.rules {
		refsIn(r.body, func(to ref) {
			uses[to]++
			callers[to] = append(callers[to], i)
		})
	}
	s.findEmpty(callers)
	for _, i := range calleesFirst(g) {
		s.judge(i.rule, i.recursive || i.rule == g.root, uses[i.rule])
	}
	return s
}

func refsIn(x expr, f func(ref)) {
	if r, ok := x.(ref); ok {
		f(r)
	}
	children(x, func(y expr) { refsIn(y, f) })
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
		if !s.empty[i] && nullable(s.rules[i].body, s.empty) {
			s.empty[i] = true
			pending = append(pending, callers[i]...)
		}
	}
}

const (
	manyRunes = 1000 // code points that make a loop heavy
	manyTimes = 16   // repetitions that count as a loop
)

// judge decides whether a rule is put in the place of its calls. That saves stack, and makes choices between rules that
// begin alike deterministic. Rules with a loop over most of Unicode (the inside of a string) stay apart unless they are
// used once: computing their mask is what takes time, and as a rule of its own it is computed once.
func (s *ruleSet) judge(i int, never bool, uses int) {
	body := s.rules[i].body
	s.size[i] = s.weight(body)
	s.heavy[i] = s.hasHeavyLoop(body, false)
	s.inward[i] = !never && (s.size[i] <= s.light && !s.heavy[i] || uses == 1 && s.light > 0)
}

func (s *ruleSet) hasHeavyLoop(x expr, looped bool) bool {
	switch x := x.(type) {
	case class:
		return looped && x.size() >= manyRunes
	case ref:
		return s.heavy[x] && s.inward[x]
	case repeat:
		looped = looped || x.max < 0 || x.max > manyTimes
	case graph:
		looped = true
	}
	heavy := false
	children(x, func(y expr) { heavy = heavy || s.hasHeavyLoop(y, looped) })
	return heavy
}

// heaviest caps weights, so that sums of them do not overflow.
const heaviest = 1 << 20

func (s *ruleSet) weight(x expr) int {
	w := 0
	switch x := x.(type) {
	case text:
		return min(len(x), heaviest)
	case class:
		if len(x) > 0 && x[len(x)-1].hi >= 0x80 {
			return 4
		}
		return 1
	case ref:
		if s.inward[x] {
			return s.size[x]
		}
		return 1
	case repeat:
		one, copies := max(s.weight(x.x), 1), max(x.min, x.max, 1)
		if s.tooLarge(one, copies) {
			return 1
		}
		return one * copies
	case graph:
		w = len(x.final)
	}
	children(x, func(y expr) { w = min(w+s.weight(y), heaviest) })
	return w
}

func (s *ruleSet) inline(r ref) (expr, bool) { return s.rules[r].body, s.inward[r] }

func (s *ruleSet) nullable(x expr) bool { return nullable(x, s.empty) }

// tooLarge tells whether a repetition is to be counted.
func (s *ruleSet) tooLarge(one, copies int) bool { return copies > 1 && copies > s.unrolled/one }

// counted makes two rules for a large repetition: what is repeated, and the counter.
func (s *ruleSet) counted(x repeat, enc encoding) (rule int32, mayBeEmpty, ok bool) {
	copies := max(x.min, x.max, 1)
	if copies == 1 || !s.tooLarge(max(s.weight(x.x), 1), copies) {
		return 0, false, false
	}
	min := x.min
	if s.nullable(x.x) {
		min = 0 // the texts that seem to be missing are empty
	}
	one := 0
	if r, ok := x.x.(ref); ok {
		one = int(r)
	} else if enc == asQuoted {
		one = s.add("a repeated part", quoted{x.x})
	} else {
		one = s.add("a repeated part", x.x)
	}
	times := &times{body: one, min: min, max: x.max}
	loop := s.add("a repetition", nil)
	s.rules[loop].times = times
	s.empty[loop] = min == 0
	return int32(loop), min == 0, true
}

func (s *ruleSet) add(name string, body expr) int {
	s.rules = append(s.rules, rule{name: name, body: body})
	s.empty = append(s.empty, body != nil && s.nullable(body))
	s.heavy = append(s.heavy, false)
	s.size = append(s.size, 1)
	s.inward = append(s.inward, false)
	return len(s.rules) - 1
}
