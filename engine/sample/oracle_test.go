package sample

import (
	"math"
	"slices"
)

// oracle is sampling by its definition: whole softmaxes, whole sorts, no tables. It returns the tokens that may be
// drawn, likeliest first, with their probabilities, and how near the nearest filter border was to flipping: rounding
// decides below about 1e-6, and tests then look away.
func oracle(row []float32, p *Params, prompt, output []int32, mask []uint32) (tokens []outcome, margin float64) {
	margin = math.Inf(1)
	for i, x := range penalised(row, p, prompt, output, mask) {
		if x > math.Inf(-1) {
			tokens = append(tokens, outcome{int32(i), float64(float32(x)) / max(p.Temperature, 1e-9)})
		}
	}
	slices.SortStableFunc(tokens, func(a, b outcome) int {
		switch {
		case a.p > b.p:
			return -1
		case a.p < b.p:
			return 1
		}
		return 0
	})
	top := tokens[0].p
	for i := range tokens {
		tokens[i].p = math.Exp(tokens[i].p - top)
	}
	near := func(a, b float64) { margin = min(margin, math.Abs(a-b)/b) }
	tokens = slices.DeleteFunc(tokens, func(o outcome) bool { near(o.p, max(p.MinP, 1e-300)); return o.p < p.MinP })
	if p.TopK > 0 && p.TopK < len(tokens) {
		tokens = tokens[:p.TopK]
	}
	tokens = firstMass(normalise(tokens), p.TopP, near)
	normalise(tokens)
	if p.TypicalP < 1 {
		var entropy float64
		for _, o := range tokens {
			entropy -= o.p * math.Log(o.p)
		}
		distance := func(o outcome) float64 { return math.Abs(-math.Log(o.p) - entropy) }
		slices.SortStableFunc(tokens, func(a, b outcome) int {
			da, db := distance(a), distance(b)
			if a.p != b.p {
				near(da+1, db+1)
			}
			switch {
			case da < db:
				return -1
			case da > db:
				return 1
			}
			return 0
		})
		tokens = normalise(firstMass(tokens, p.TypicalP, near))
	}
	return tokens, margin
}

// penalised are the logits with biases and penalties; what may not be drawn is -Inf.
func penalised(row []float32, p *Params, prompt, output []int32, mask []uint32) []float64 {
	logits := make([]float64, len(row))
	for i, x := range row {
		logits[i] = float64(x)
		allowed := len(p.Allowed) == 0 || slices.Contains(p.Allowed, int32(i))
		if mask != nil && mask[i/32]>>(i%32)&1 == 0 || !allowed || slices.Contains(p.Banned, int32(i)) {
			logits[i] = math.Inf(-1)
		}
		logits[i] += p.LogitBias[int32(i)]
	}
	all := slices.Concat(prompt, output)
	counted := output
	if p.PenaltyWindow > 0 {
		all = all[max(0, len(all)-p.PenaltyWindow):]
		counted = all
	}
	for i := range logits {
		n := 0
		for _, id := range counted {
			if int(id) == i {
				n++
			}
		}
		if slices.Contains(all, int32(i)) {
			if logits[i] > 0 {
				logits[i] /= p.RepetitionPenalty
			} else {
				logits[i] *= p.RepetitionPenalty
			}
		}
		if n > 0 {
			logits[i] -= p.FrequencyPenalty*float64(n) + p.PresencePenalty
		}
	}
	return logits
}

type outcome struct {
	id int32
	p  float64
}

func normalise(tokens []outcome) []outcome {
	var sum float64
	for _, o := range tokens {
		sum += o.p
	}
	for i := range tokens {
		tokens[i].p /= sum
	}
	return tokens
}

// firstMass cuts tokens after the one that makes their sum reach mass.
func firstMass(tokens []outcome, mass float64, near func(a, b float64)) []outcome {
	if mass == 1 {
		return tokens
	}
	var sum float64
	for i, o := range tokens {
		sum += o.p
		near(sum, mass)
		if sum >= mass {
			return tokens[:i+1]
		}
	}
	return tokens
}
