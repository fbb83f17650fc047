package sampling

import (
	"cmp"
	"math"
	"slices"
)

// token is one that may be drawn.
type token struct {
	id     int32
	order  float32 // the larger the likelier, or the more typical
	weight float64
}

// before is the one order of tokens.
func before(a, b token) int {
	if a.order != b.order {
		return cmp.Compare(b.order, a.order)
	}
	return cmp.Compare(a.id, b.id)
}

// Plain makes a draw from its row, [vocab], by the definition: a whole softmax in float64 and a whole sort. fed is the token
// that d.Fed stands for.
func Plain(d *Draw, row []float32, fed int32) Drawn {
	tokens := list(d.adjusted(row, fed))
	if len(tokens) == 0 {
		return Drawn{Failure: Empty}
	}
	slices.SortFunc(tokens, before)
	if math.IsInf(float64(tokens[0].order), 1) {
		return Drawn{Token: tokens[0].id, Failure: Infinite}
	}
	out := Drawn{Token: tokens[0].id}
	if d.Temperature > 0 {
		out.Token = d.choose(tokens)
	}
	if d.Logprob {
		out.report(row, d.Top)
	}
	return out
}

// adjusted is the row after mask, edits and penalties.
func (d *Draw) adjusted(row []float32, fed int32) []float32 {
	x := slices.Clone(row)
	edits := d.Edits
	if d.Fed >= 0 {
		edits = slices.Clone(edits)
		at := slices.IndexFunc(edits, func(e Edit) bool { return e.ID == fed })
		if at < 0 {
			at, edits = len(edits), append(edits, Edit{ID: fed})
		}
		edits[at].Seen++
		edits[at].Counted++
	}
	for _, e := range edits {
		x[e.ID] = d.Apply(e, x[e.ID])
	}
	for i := range x {
		if d.Mask != nil && d.Mask[i/32]>>(i%32)&1 == 0 {
			x[i] = float32(math.Inf(-1))
		}
	}
	return x
}

// list is the tokens of a row that have any probability.
func list(row []float32) (tokens []token) {
	for i, x := range row {
		if x > float32(math.Inf(-1)) {
			tokens = append(tokens, token{id: int32(i), order: x})
		}
	}
	return tokens
}

// choose filters the tokens, likeliest first, and draws one.
func (d *Draw) choose(tokens []token) int32 {
	top := float64(tokens[0].order)
	for i := range tokens {
		tokens[i].weight = math.Exp((float64(tokens[i].order) - top) / d.Temperature)
	}
	tokens = slices.DeleteFunc(tokens, func(t token) bool { return t.weight < d.MinP })
	if d.TopK > 0 && d.TopK < len(tokens) {
		tokens = tokens[:d.TopK]
	}
	tokens = reach(tokens, d.TopP)
	if d.TypicalP < 1 {
		mass, entropy := sum(tokens), 0.0
		for _, t := range tokens {
			if q := t.weight / mass; q > 0 {
				entropy -= q * math.Log(q)
			}
		}
		for i, t := range tokens {
			tokens[i].order = -float32(math.Abs(math.Log(t.weight/mass) + entropy))
		}
		slices.SortFunc(tokens, before)
		tokens = reach(tokens, d.TypicalP)
	}
	tokens = tokens[:max(1, len(reach(tokens, d.U)))]
	return tokens[len(tokens)-1].id
}

// reach is the shortest beginning of tokens that has the given part of their mass.
func reach(tokens []token, part float64) []token {
	if part == 1 {
		return tokens
	}
	left := part * sum(tokens)
	for i, t := range tokens {
		if left -= t.weight; left <= 0 {
			return tokens[:i+1]
		}
	}
	return tokens
}

func sum(tokens []token) (mass float64) {
	for _, t := range tokens {
		mass += t.weight
	}
	return mass
}

// report fills in the log-probabilities.
func (out *Drawn) report(row []float32, n int) {
	tokens := list(row)
	slices.SortFunc(tokens, before)
	var mass float64
	for _, t := range tokens {
		mass += math.Exp(float64(t.order) - float64(tokens[0].order))
	}
	total := float64(tokens[0].order) + math.Log(mass)
	out.Logprob = float32(float64(row[out.Token]) - total)
	for _, t := range tokens[:min(n, len(tokens))] {
		out.Top = append(out.Top, Logprob{t.id, float32(float64(t.order) - total)})
	}
}
