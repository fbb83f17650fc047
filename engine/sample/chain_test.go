package sample

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// chainOracle is llama.cpp's samplers by their definition: after each step it has what is left, sorted.
type chainOracle struct {
	p              *Params
	prompt, output []int32
	chance         float64   // decides on xtc
	logits         []float64 // [vocab], divided by the temperature once that step was
	ids            []int32   // that are left, likeliest first
	margin         float64   // as in oracle
}

// chainOf is the tokens that may be drawn with their probabilities, and the margin.
func chainOf(row []float32, p *Params, prompt, output []int32, chance float64) ([]outcome, float64) {
	plain := *p
	plain.RepetitionPenalty, plain.FrequencyPenalty, plain.PresencePenalty = 1, 0, 0
	o := &chainOracle{p: p, prompt: prompt, output: output, chance: chance, logits: penalised(row, &plain, nil, nil, nil), margin: math.Inf(1)}
	for i, x := range o.logits {
		if o.logits[i] = float64(float32(x)); x > math.Inf(-1) {
			o.ids = append(o.ids, int32(i))
		}
	}
	o.sort()
	order := p.Samplers
	if len(order) == 0 {
		order = []string{"penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"}
	}
	for _, name := range order {
		o.step(name)
	}
	return o.softmax(), o.margin
}

func (o *chainOracle) near(a, b float64) {
	o.margin = min(o.margin, math.Abs(a-b)/max(math.Abs(b), 1e-300))
}

func (o *chainOracle) sort() {
	slices.Sort(o.ids)
	slices.SortStableFunc(o.ids, func(a, b int32) int { return cmp.Compare(o.logits[b], o.logits[a]) })
}

func (o *chainOracle) softmax() []outcome {
	list := make([]outcome, len(o.ids))
	for i, id := range o.ids {
		list[i] = outcome{id, math.Exp(o.logits[id] - o.logits[o.ids[0]])}
	}
	return normalise(list)
}

func (o *chainOracle) keep(list []outcome) {
	o.ids = o.ids[:0]
	for _, x := range list {
		o.ids = append(o.ids, x.id)
	}
	o.sort()
}

func (o *chainOracle) row() []float32 {
	row := make([]float32, len(o.logits))
	for i := range row {
		row[i] = float32(math.Inf(-1))
	}
	for _, id := range o.ids {
		row[id] = float32(o.logits[id])
	}
	return row
}

func (o *chainOracle) step(name string) {
	p := o.p
	switch name {
	case "penalties":
		o.penalise()
	case "dry":
		o.dry()
	case "top_n_sigma":
		o.nearTop()
	case "top_k":
		if p.TopK > 0 {
			o.ids = o.ids[:min(p.TopK, len(o.ids))]
		}
	case "typ_p":
		q := Default()
		q.TypicalP = p.TypicalP
		list, margin := oracle(o.row(), &q, nil, nil, nil)
		o.margin = min(o.margin, margin)
		o.keep(list)
	case "top_p":
		o.keep(firstMass(o.softmax(), p.TopP, o.near))
	case "min_p":
		list := o.softmax()
		top := list[0].p
		o.keep(slices.DeleteFunc(list, func(x outcome) bool { o.near(x.p/top, max(p.MinP, 1e-300)); return x.p < p.MinP*top }))
	case "xtc":
		last := 0
		for i, x := range o.softmax() {
			if o.near(x.p, p.XTCThreshold); x.p >= p.XTCThreshold {
				last = i
			}
		}
		if o.chance < p.XTCProbability && p.XTCThreshold <= 0.5 {
			o.ids = o.ids[last:]
		}
	case "temperature":
		o.temper()
	}
}

func (o *chainOracle) penalise() {
	q := Default()
	q.RepetitionPenalty, q.FrequencyPenalty, q.PresencePenalty, q.PenaltyWindow = o.p.RepetitionPenalty, o.p.FrequencyPenalty, o.p.PresencePenalty, o.p.PenaltyWindow
	before := o.logits
	o.logits = penalised(o.row(), &q, o.prompt, o.output, nil)
	o.sort()
	for i, id := range o.ids[1:] { // rounding decides which of nearly equal logits is first
		if last := o.ids[i]; before[id] != before[last] {
			o.margin = min(o.margin, math.Abs(o.logits[id]-o.logits[last]))
		}
	}
}

// dry is the penalty by its description: of every place where the latest tokens have occurred before, back to the last breaker.
func (o *chainOracle) dry() {
	all := slices.Concat(o.prompt, o.output)
	if o.p.DryMultiplier == 0 || o.p.DryWindow == 0 {
		return
	}
	if o.p.DryWindow > 0 {
		all = all[max(0, len(all)-o.p.DryWindow):]
	}
	if len(all) <= o.p.DryAllowedLength {
		return
	}
	end := all[afterBreaker(all, o.p.DryBreakers):]
	before := slices.Clone(o.logits)
	for id := range o.logits {
		longest := -1
		for place := 1; place < len(all); place++ { // the token occurred there, behind n of the latest; before the first there is nothing to repeat
			if all[place] != int32(id) {
				continue
			}
			n := 0
			for n < place && n < len(end) && all[place-1-n] == end[len(end)-1-n] {
				n++
			}
			longest = max(longest, n)
		}
		if alone := o.p.DryBreakers != nil && afterBreaker([]int32{int32(id)}, o.p.DryBreakers) == 1; longest >= o.p.DryAllowedLength && len(end) >= o.p.DryAllowedLength && !alone {
			o.logits[id] = float64(float32(o.logits[id] - o.p.DryMultiplier*math.Pow(o.p.DryBase, float64(longest-o.p.DryAllowedLength))))
		}
	}
	o.sort()
	for i, id := range o.ids[1:] {
		if last := o.ids[i]; before[id] != before[last] {
			o.margin = min(o.margin, math.Abs(o.logits[id]-o.logits[last]))
		}
	}
}

// afterBreaker is the place behind the last breaker: of those that begin last the longest.
func afterBreaker(all []int32, b *Breakers) int {
	if b == nil {
		return 0
	}
	for i := len(all) - 1; i >= 0; i-- {
		longest := -1
		for _, tail := range b.tails[all[i]] {
			if rest := all[i+1:]; len(rest) >= len(tail) && slices.Equal(rest[:len(tail)], tail) {
				longest = max(longest, len(tail))
			}
		}
		if longest >= 0 {
			return i + 1 + longest
		}
	}
	return 0
}

func (o *chainOracle) nearTop() {
	if o.p.TopNSigma == 0 {
		return
	}
	n, mean, square := float64(len(o.ids)), 0.0, 0.0
	for _, id := range o.ids {
		mean += o.logits[id] / n
	}
	for _, id := range o.ids {
		square += (o.logits[id] - mean) * (o.logits[id] - mean) / n
	}
	top, deviation := o.logits[o.ids[0]], math.Sqrt(square)
	o.ids = slices.DeleteFunc(o.ids, func(id int32) bool {
		o.near(1+top-o.logits[id], 1+o.p.TopNSigma*deviation)
		return o.logits[id] < top-o.p.TopNSigma*deviation
	})
}

func (o *chainOracle) temper() {
	t := o.p.Temperature
	if o.p.DynatempRange > 0 && len(o.ids) > 1 {
		var entropy float64
		for _, x := range o.softmax() {
			if x.p > 0 {
				entropy -= x.p * math.Log(x.p)
			}
		}
		low := max(0, t-o.p.DynatempRange)
		t = low + (t+o.p.DynatempRange-low)*math.Pow(entropy/math.Log(float64(len(o.ids))), o.p.DynatempExponent)
	}
	if o.near(t+1, greedyBelow+1); t < greedyBelow {
		o.ids = o.ids[:1]
		return
	}
	for i := range o.logits {
		o.logits[i] /= t
	}
}

// drawChain draws settings of the chain. Those that leave one token are rare: it is the same by every definition.
func drawChain(t *rapid.T, vocab int) Params {
	p := drawParams(t, vocab)
	p.TopK = rapid.SampledFrom([]int{0, 0, 7, 40}).Draw(t, "top_k")
	p.TopP = rapid.SampledFrom([]float64{1, 1, 0.9171, 0.31}).Draw(t, "top_p")
	p.MinP = rapid.SampledFrom([]float64{0, 0, 0.0517, 0.7}).Draw(t, "min_p")
	p.TopNSigma = rapid.SampledFrom([]float64{0, 0.513, 1.337}).Draw(t, "top_n_sigma")
	p.XTCProbability = rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "xtc_probability")
	p.XTCThreshold = rapid.SampledFrom([]float64{0.00123, 0.0517, 0.313, 0.7}).Draw(t, "xtc_threshold")
	p.DryMultiplier = rapid.SampledFrom([]float64{0, 0.813, 3}).Draw(t, "dry_multiplier")
	p.DryBase = rapid.SampledFrom([]float64{1, 1.75, 4}).Draw(t, "dry_base")
	p.DryAllowedLength = rapid.IntRange(0, 3).Draw(t, "dry_allowed_length")
	p.DryWindow = rapid.SampledFrom([]int{-1, -1, 0, 3, 9}).Draw(t, "dry_penalty_last_n")
	if some := rapid.SliceOfN(rapid.SliceOfN(rapid.Int32Range(0, int32(vocab-1)), 1, 3), 0, 3).Draw(t, "dry_sequence_breakers"); len(some) > 0 {
		p.DryBreakers = NewBreakers(some)
	}
	p.DynatempRange = rapid.SampledFrom([]float64{0, 0.4, 2}).Draw(t, "dynatemp_range")
	p.DynatempExponent = rapid.SampledFrom([]float64{0.5, 1, 3}).Draw(t, "dynatemp_exponent")
	if rapid.Bool().Draw(t, "ordered") {
		names := rapid.Permutation(SamplerNames()).Draw(t, "samplers")
		p.Samplers = names[:rapid.IntRange(1, len(names)).Draw(t, "n")]
	}
	if p.Chained() == "" {
		p.TopNSigma = 1.337
	}
	return p
}

// TestChainAgainstOracle: with llama.cpp's own samplers every choice is the one that their definition makes with the
// same random numbers.
func TestChainAgainstOracle(t *testing.T) {
	var s Sampler
	rapid.Check(t, func(t *rapid.T) {
		vocab := rapid.IntRange(1, 200).Draw(t, "vocab")
		grid := rapid.SampledFrom([]float64{0.05, 0.2, 4}).Draw(t, "grid") // coarse grids make equal logits
		logits := make([]float32, vocab)
		for i := range logits {
			logits[i] = float32(float64(rapid.IntRange(-20, 20).Draw(t, "logit")) * grid)
		}
		p := drawChain(t, vocab)
		token := rapid.Int32Range(0, int32(vocab-1))
		prompt, output := rapid.SliceOf(token).Draw(t, "prompt"), rapid.SliceOf(token).Draw(t, "output")
		for range 10 {
			p.Seed++
			st, err := NewState(p, vocab, prompt)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range output {
				st.Observe(id)
			}
			n := uint64(len(output))
			want, margin := chainOf(logits, &p, prompt, output, uniform(^p.Seed, n))
			got, err := s.Sample(slices.Clone(logits), st, nil)
			if err != nil {
				t.Fatal(err)
			}
			if margin > 1e-5 {
				requireDrawn(t, got.Token, want, uniform(p.Seed, n))
			}
		}
	})
}

// requireDrawn fails if token is not the one that the random number u chooses among those wanted.
func requireDrawn(t *rapid.T, token int32, want []outcome, u float64) {
	var below float64
	for _, o := range want {
		if token == o.id {
			if u < below-1e-6 || u > below+o.p+1e-6 {
				t.Fatalf("chose %d, drawn by [%v, %v], with u = %v", o.id, below, below+o.p, u)
			}
			return
		}
		below += o.p
	}
	t.Fatalf("chose %d, which the samplers drop; they keep %v", token, want)
}
