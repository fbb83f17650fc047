package sample

import (
	"math"
	"slices"
)

// DRY (don't repeat yourself; p-e-w, text-generation-webui #5677, and llama.cpp) lowers the logit of a token that would go on with a repetition: where the latest n tokens have
// occurred before with the token behind them, by DryMultiplier × DryBase^(n − DryAllowedLength), for the longest such n that is at least DryAllowedLength. No repetition reaches
// back beyond the latest breaker, and breakers of one token are never lowered.

// Breakers are the sequences of tokens that end repetitions, for Params.DryBreakers. Any number of requests may share them.
type Breakers struct {
	tails map[int32][][]int32 // what follows the first token; an empty one is a breaker of one token
}

// NewBreakers makes breakers of sequences of tokens, none of which is empty.
func NewBreakers(sequences [][]int32) *Breakers {
	b := &Breakers{tails: map[int32][][]int32{}}
	for _, s := range sequences {
		if tail := s[1:]; !slices.ContainsFunc(b.tails[s[0]], func(t []int32) bool { return slices.Equal(t, tail) }) {
			b.tails[s[0]] = append(b.tails[s[0]], tail)
		}
	}
	return b
}

// single reports whether a token alone is a breaker.
func (b *Breakers) single(id int32) bool {
	return b != nil && slices.ContainsFunc(b.tails[id], func(tail []int32) bool { return len(tail) == 0 })
}

// behind is how many of the latest tokens come after the last breaker. at(i) is the token i places before the latest, of n.
func (b *Breakers) behind(n int, at func(int) int32) int {
	if b == nil {
		return n
	}
	for i := range n {
		longest := -1
		for _, tail := range b.tails[at(i)] {
			if len(tail) > longest && len(tail) <= i && follows(tail, i, at) {
				longest = len(tail)
			}
		}
		if longest >= 0 {
			return i - longest
		}
	}
	return n
}

// follows reports whether a tail comes right behind the token i places before the latest.
func follows(tail []int32, i int, at func(int) int32) bool {
	for j, id := range tail {
		if id != at(i-1-j) {
			return false
		}
	}
	return true
}

// repeats is the state of DRY: the tokens that it looks at.
type repeats struct {
	tokens []int32 // the latest last
	limit  int     // that count; -1: all
	length []int32 // scratch: how many tokens before the place agree with the latest
	next   map[int32]int32
}

// add takes one token more.
func (r *repeats) add(id int32) {
	if r.tokens = append(r.tokens, id); r.limit >= 0 && len(r.tokens) >= 2*r.limit+64 { // not at every token
		r.tokens = append(r.tokens[:0], r.tokens[len(r.tokens)-r.limit:]...)
	}
}

// copy makes r what other is.
func (r *repeats) copy(other *repeats) {
	r.tokens, r.limit = append(r.tokens[:0], other.tokens...), other.limit
}

// window is the tokens that count.
func (r *repeats) window() []int32 {
	if n := len(r.tokens); r.limit >= 0 && n > r.limit {
		return r.tokens[n-r.limit:]
	}
	return r.tokens
}

// found is, by token, the longest repetition of at least so many tokens that the token would go on with. It is valid until the next call.
func (r *repeats) found(allowed int, b *Breakers) map[int32]int32 {
	tokens := r.window()
	n := len(tokens)
	at := func(i int) int32 { return tokens[n-1-i] }
	if n <= allowed {
		return nil
	}
	most := b.behind(n, at)
	if most < allowed {
		return nil
	}
	if r.next == nil {
		r.next = map[int32]int32{}
	}
	clear(r.next)
	r.agree(n, at)
	for k, length := range r.length[1:] {
		if length = min(length, int32(most)); int(length) >= allowed {
			r.next[at(k)] = max(r.next[at(k)], length) // the token behind the repetition that ends k+1 places before the latest
		}
	}
	return r.next
}

// agree sets length[k] to how many tokens, from the one k places before the latest backwards, agree with the latest: the Z function of the tokens from the last to the first, in linear
// time.
func (r *repeats) agree(n int, at func(int) int32) {
	r.length = slices.Grow(r.length[:0], n)[:n]
	from, to := 0, 0 // the agreement that reaches furthest: [from, to) agrees with [0, to-from)
	for k := 1; k < n; k++ {
		z := 0
		if k < to {
			z = min(to-k, int(r.length[k-from]))
		}
		for k+z < n && at(z) == at(k+z) {
			z++
		}
		if k+z > to {
			from, to = k, k+z
		}
		r.length[k] = int32(z)
	}
}

// maxLog is the logarithm of the largest penalty, that of float32.
const maxLog = 88.7228391

// penalty is what a repetition of n tokens takes from a logit.
func (p *Params) dryPenalty(n int32) float64 {
	exponent := float64(int(n) - p.DryAllowedLength)
	if log := math.Log(p.DryBase); log > 1e-6 {
		exponent = min(exponent, math.Floor(maxLog/log))
	}
	return p.DryMultiplier * math.Pow(p.DryBase, exponent)
}

// dry reports whether DRY is on.
func (p *Params) dry() bool { return p.DryMultiplier > 0 && p.DryWindow != 0 }

// dry lowers the logits of what is left.
func (c *chain) dry() {
	p := &c.state.params
	if !p.dry() {
		return
	}
	for id, n := range c.state.repeats.found(p.DryAllowedLength, p.DryBreakers) {
		if uint(id) < uint(len(c.row)) && !p.DryBreakers.single(id) {
			c.row[id] -= float32(c.temperature * p.dryPenalty(n))
		}
	}
	c.reread()
}
