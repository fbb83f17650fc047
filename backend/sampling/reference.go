package sampling

import (
	"cmp"
	"math"
	"slices"
)

// token is one that may be sampled.
type token struct {
	id     int32
	order  float32 // the larger the likelier, or the more typical
	weight float64
}

// before orders tokens, likeliest first.
func before(a, b token) int {
	if a.order != b.order {
		return cmp.Compare(b.order, a.order)
	}
	return cmp.Compare(a.id, b.id)
}

// Reference samples a token from its row, [vocab], by the definition: a whole softmax in float64 and a whole sort. future is the token
// that s.Future stands for.
func Reference(s *Sample, row []float32, future int32) Result {
	tokens := list(s.adjusted(row, future))
	if len(tokens) == 0 {
		return Result{Failure: Empty}
	}
	slices.SortFunc(tokens, before)
	if math.IsInf(float64(tokens[0].order), 1) {
		return Result{Token: tokens[0].id, Failure: Infinite}
	}
	out := Result{Token: tokens[0].id}
	if s.Temperature > 0 {
		out.Token = s.choose(tokens)
	}
	if s.Logprob {
		out.report(row, s.Top)
	}
	return out
}

// adjusted is the row after mask, edits and penalties.
func (s *Sample) adjusted(row []float32, future int32) []float32 {
	x := slices.Clone(row)
	edits := s.Edits
	if s.Future >= 0 {
		edits = slices.Clone(edits)
		at := slices.IndexFunc(edits, func(e Edit) bool { return e.ID == future })
		if at < 0 {
			at, edits = len(edits), append(edits, Edit{ID: future})
		}
		edits[at].Seen++
		edits[at].Counted++
	}
	for _, e := range edits {
		x[e.ID] = s.Apply(e, x[e.ID])
	}
	for i := range x {
		if s.Mask != nil && s.Mask[i/32]>>(i%32)&1 == 0 {
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

// choose filters the tokens, likeliest first, and samples one.
func (s *Sample) choose(tokens []token) int32 {
	top := float64(tokens[0].order)
	for i := range tokens {
		tokens[i].weight = math.Exp((float64(tokens[i].order) - top) / s.Temperature)
	}
	tokens = slices.DeleteFunc(tokens, func(t token) bool { return t.weight < s.MinP })
	if s.TopK > 0 && s.TopK < len(tokens) {
		tokens = tokens[:s.TopK]
	}
	tokens = reach(tokens, s.TopP)
	if s.TypicalP < 1 {
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
		tokens = reach(tokens, s.TypicalP)
	}
	tokens = tokens[:max(1, len(reach(tokens, s.U)))]
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
func (out *Result) report(row []float32, n int) {
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
