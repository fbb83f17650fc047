package automaton

import "github.com/ridge-llm/ridge/engine/grammar/syntax"

// orderedRule is a rule of a grammar, and whether it can come to call itself.
type orderedRule struct {
	rule      int
	recursive bool
}

// calleesFirst lists the rules that the root needs, those that a rule calls before the rule itself, except where they
// call each other (Tarjan, "Depth-first search and linear graph algorithms", 1972). It keeps a stack of its own: chains
// of rules may be long.
func calleesFirst(g *syntax.Grammar) []orderedRule {
	n := len(g.Rules)
	type visit struct{ rule, next int }
	var (
		order []orderedRule
		index = make([]int, n) // 1 + when the rule was met; 0: not yet
		low   = make([]int, n) // the earliest rule on the stack that it reaches
		on    = make([]bool, n)
		self  = make([]bool, n)
		stack []int
		path  []visit
		calls = make([][]int, n)
		clock int
	)
	enter := func(r int) {
		refsIn(g.Rules[r].Body, func(to syntax.Ref) {
			calls[r] = append(calls[r], int(to))
			self[r] = self[r] || int(to) == r
		})
		clock++
		index[r], low[r], on[r] = clock, clock, true
		stack = append(stack, r)
		path = append(path, visit{rule: r})
	}
	enter(g.Root)
	for len(path) > 0 {
		v := &path[len(path)-1]
		r := v.rule
		if v.next < len(calls[r]) {
			to := calls[r][v.next]
			v.next++
			if index[to] == 0 {
				enter(to)
			} else if on[to] {
				low[r] = min(low[r], index[to])
			}
			continue
		}
		path = path[:len(path)-1]
		if len(path) > 0 {
			caller := path[len(path)-1].rule
			low[caller] = min(low[caller], low[r])
		}
		if low[r] != index[r] {
			continue
		}
		cycle := stack[len(stack)-1] != r
		for {
			top := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			on[top] = false
			order = append(order, orderedRule{top, cycle || self[top]})
			if top == r {
				break
			}
		}
	}
	return order
}
