package sample

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// chainOracle is llama.cpp's samplers by their definition: after each the probabilities of what is left, sorted. chance
// decides on XTC. margin is as in oracle.
func chainOracle(row []float32, p *Params, prompt, output []int32, chance float64) (tokens []outcome, margin float64) {
	margin = math.Inf(1)
	near := func(a, b float64) { margin = min(margin, math.Abs(a-b)/max(math.Abs(b), 1e-300)) }
	logits := penalised(row, p, prompt, output, nil)
	var ids []int32
	for i, x := range logits {
		if logits[i] = float64(float32(x)); x > math.Inf(-1) {
			ids = append(ids, int32(i))
		}
	}
	slices.SortStableFunc(ids, func(a, b int32) int {
		if logits[a] == logits[b] {
			return 0
		} else if logits[a] > logits[b] {
			return -1
		}
		return 1
	})
	softmax := func(temperature float64) []outcome {
		list := make([]outcome, len(ids))
		for i, id := range ids {
			list[i] = outcome{id, math.Exp((logits[id] - logits[ids[0]]) / temperature)}
		}
		return normalise(list)
	}
	keep := func(list []outcome) {
		ids = ids[:0]
		for _, o := range list {
			ids = append(ids, o.id)
		}
	}
	if p.TopNSigma > 0 {
		n, mean, square := float64(len(ids)), 0.0, 0.0
		for _, id := range ids {
			mean += logits[id] / n
		}
		for _, id := range ids {
			square += (logits[id] - mean) * (logits[id] - mean) / n
		}
		floor := logits[ids[0]] - p.TopNSigma*math.Sqrt(square)
		ids = slices.DeleteFunc(ids, func(id int32) bool { near(logits[id]+1e3, floor+1e3); return logits[id] < floor })
	}
	if p.TopK > 0 && p.TopK < len(ids) {
		ids = ids[:p.TopK]
	}
	if p.TypicalP < 1 {
		q := Default()
		q.TypicalP = p.TypicalP
		masked := make([]float32, len(row))
		for i := range masked {
			masked[i] = float32(math.Inf(-1))
		}
		for _, id := range ids {
			masked[id] = float32(logits[id])
		}
		list, m := oracle(masked, &q, nil, nil, nil)
		margin = min(margin, m)
		kept := func(id int32) bool { return slices.ContainsFunc(list, func(o outcome) bool { return o.id == id }) }
		ids = slices.DeleteFunc(ids, func(id int32) bool { return !kept(id) })
	}
	keep(firstMass(softmax(1), p.TopP, near))
	if p.MinP > 0 {
		list := softmax(1)
		keep(slices.DeleteFunc(list, func(o outcome) bool { near(o.p/list[0].p, p.MinP); return o.p < p.MinP*softmax(1)[0].p }))
	}
	if chance < p.XTCProbability && p.XTCThreshold <= 0.5 {
		last := 0
		for i, o := range softmax(1) {
			near(o.p, p.XTCThreshold)
			if o.p >= p.XTCThreshold {
				last = i
			}
		}
		ids = ids[last:]
	}
	t := p.Temperature
	if p.DynatempRange > 0 && len(ids) > 1 {
		var entropy float64
		for _, o := range softmax(1) {
			if o.p > 0 {
				entropy -= o.p * math.Log(o.p)
			}
		}
		low := max(0, t-p.DynatempRange)
		t = low + (t+p.DynatempRange-low)*math.Pow(entropy/math.Log(float64(len(ids))), p.DynatempExponent)
	}
	near(t+1, greedyBelow+1)
	if t < greedyBelow {
		ids = ids[:1]
	}
	return softmax(t), margin
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
	p.DynatempRange = rapid.SampledFrom([]float64{0, 0.4, 2}).Draw(t, "dynatemp_range")
	p.DynatempExponent = rapid.SampledFrom([]float64{0.5, 1, 3}).Draw(t, "dynatemp_exponent")
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
			want, margin := chainOracle(logits, &p, prompt, output, uniform(^p.Seed, n))
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
