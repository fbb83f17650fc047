package sample

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestAgainstOracle draws rows, settings and histories, and asks that every choice is the one that the definition
// makes with the same random number.
func TestAgainstOracle(t *testing.T) {
	var s Sampler
	rapid.Check(t, func(t *rapid.T) {
		vocab := rapid.IntRange(1, 200).Draw(t, "vocab")
		grid := rapid.SampledFrom([]float64{0.01, 0.5, 4}).Draw(t, "grid") // coarse grids make equal logits
		logits := make([]float32, vocab)
		for i := range logits {
			logits[i] = float32(float64(rapid.IntRange(-20, 20).Draw(t, "logit")) * grid)
		}
		p := drawParams(t, vocab)
		token := rapid.Int32Range(0, int32(vocab-1))
		prompt, output := rapid.SliceOf(token).Draw(t, "prompt"), rapid.SliceOf(token).Draw(t, "output")
		var mask []uint32
		if rapid.Bool().Draw(t, "masked") {
			mask = rapid.SliceOfN(rapid.Uint32(), (vocab+31)/32, (vocab+31)/32).Draw(t, "mask")
			mask[0] |= 1 // something is allowed
		}
		st, err := NewState(p, vocab, prompt)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range output {
			st.Observe(id)
		}
		want, margin := oracle(logits, &p, prompt, output, mask)
		got, err := s.Sample(slices.Clone(logits), st, mask)
		if err != nil {
			t.Fatal(err)
		}
		if p.greedy() {
			if got.Token != want[0].id {
				t.Fatalf("greedy chose %d, want %d", got.Token, want[0].id)
			}
			return
		}
		if margin < 1e-5 {
			return
		}
		requireDrawn(t, got.Token, want, uniform(p.Seed, uint64(len(output))))
	})
}

func drawParams(t *rapid.T, vocab int) Params {
	p := Default()
	p.Temperature = rapid.SampledFrom([]float64{0, 0.3, 1, 2.5}).Draw(t, "temperature")
	p.TopK = rapid.SampledFrom([]int{0, 1, 5, 40, math.MaxInt}).Draw(t, "top_k")
	p.TopP = rapid.SampledFrom([]float64{1, 0.9171, 0.31, 1e-9}).Draw(t, "top_p")
	p.MinP = rapid.SampledFrom([]float64{0, 0.0517, 0.7, 1}).Draw(t, "min_p")
	p.TypicalP = rapid.SampledFrom([]float64{1, 1, 0.8713, 0.2}).Draw(t, "typical_p")
	p.RepetitionPenalty = rapid.SampledFrom([]float64{1, 1.25, 0.5}).Draw(t, "repetition")
	p.FrequencyPenalty = rapid.SampledFrom([]float64{0, 0.5, -1}).Draw(t, "frequency")
	p.PresencePenalty = rapid.SampledFrom([]float64{0, 0.75, -2}).Draw(t, "presence")
	p.PenaltyWindow = rapid.SampledFrom([]int{0, 1, 7, 1 << 40}).Draw(t, "window")
	p.Seed = rapid.Uint64().Draw(t, "seed")
	last := int32(vocab - 1)
	if rapid.Bool().Draw(t, "bias") {
		p.LogitBias = map[int32]float64{last: 2.5, last / 2: -100}
	}
	if rapid.Bool().Draw(t, "allowed") {
		p.Allowed = []int32{0, last, last / 2}
	}
	if last > 0 && rapid.Bool().Draw(t, "banned") {
		p.Banned = []int32{last}
	}
	return p
}

// TestDistribution draws 40,000 tokens under consecutive seeds and asks by chi-square whether they follow the
// definition's probabilities. 5 standard deviations above the mean has a chance of less than one in 10^4 at this size,
// and the seeds are fixed: the test cannot flicker.
func TestDistribution(t *testing.T) {
	logits := row(50, 3)
	var s Sampler
	for _, change := range []func(*Params){
		func(p *Params) {},
		func(p *Params) { p.Temperature = 4 },
		func(p *Params) { p.Temperature, p.TopP = 5, 0.8 },
		func(p *Params) { p.Temperature, p.TopK, p.MinP = 3, 20, 0.01 },
		func(p *Params) { p.Temperature, p.TypicalP = 5, 0.5 },
	} {
		p := Default()
		change(&p)
		want, _ := oracle(logits, &p, nil, nil, nil)
		const draws = 40000
		counts := map[int32]float64{}
		for seed := range uint64(draws) {
			p.Seed = seed
			st, err := NewState(p, len(logits), nil)
			if err != nil {
				t.Fatal(err)
			}
			choice, err := s.Sample(logits, st, nil)
			if err != nil {
				t.Fatal(err)
			}
			counts[choice.Token]++
		}
		var chi, free, rareWant, rareGot float64
		for _, o := range want {
			expected := o.p * draws
			if expected < 10 { // chi-square needs cells of a few draws: pool the rare ones
				rareWant += expected
				rareGot += counts[o.id]
				continue
			}
			chi += (counts[o.id] - expected) * (counts[o.id] - expected) / expected
			free++
		}
		if rareWant > 0 {
			chi += (rareGot - rareWant) * (rareGot - rareWant) / rareWant
			free++
		}
		if limit := free + 5*math.Sqrt(2*free); chi > limit {
			t.Errorf("%+v: chi-square %.1f with %.0f cells; limit %.1f", p, chi, free, limit)
		}
	}
}

// TestSameSeedSameText: what else the sampler serves in between does not matter; neighbouring seeds and tokens differ.
func TestSameSeedSameText(t *testing.T) {
	text := func(seed uint64, disturbed bool) (ids []int32) {
		var s Sampler
		p := Default()
		p.Seed = seed
		st, err := NewState(p, 500, nil)
		if err != nil {
			t.Fatal(err)
		}
		other, _ := NewState(Default(), 500, nil)
		for i := range uint64(40) {
			if disturbed {
				choice, err := s.Sample(row(500, 1000+i), other, nil)
				if err != nil {
					t.Fatal(err)
				}
				other.Observe(choice.Token)
			}
			choice, err := s.Sample(row(500, i), st, nil)
			if err != nil {
				t.Fatal(err)
			}
			st.Observe(choice.Token)
			ids = append(ids, choice.Token)
		}
		return ids
	}
	alone := text(7, false)
	if shared := text(7, true); !slices.Equal(alone, shared) {
		t.Errorf("the text depends on the company: %v, %v", alone, shared)
	}
	if slices.Equal(alone, text(8, false)) {
		t.Error("two seeds gave the same text")
	}
}

func TestUniform(t *testing.T) {
	var mean float64
	seen := map[float64]bool{}
	for seed := range uint64(100) {
		for index := range uint64(100) {
			u := uniform(seed, index)
			if u < 0 || u >= 1 || seen[u] {
				t.Fatalf("uniform(%d, %d) = %v: out of range or seen before", seed, index, u)
			}
			seen[u] = true
			mean += u / 10000
		}
	}
	if math.Abs(mean-0.5) > 0.01 { // 3.5 standard deviations
		t.Errorf("mean %v", mean)
	}
}

func TestLogprobs(t *testing.T) {
	logits := row(3000, 5)
	var sum float64
	for _, x := range logits {
		sum += math.Exp(float64(x))
	}
	p := Default()
	p.Temperature, p.Logprobs, p.TopLogprobs, p.RepetitionPenalty = 0, true, 5, 1.9
	_, best := argmax(logits)
	first := slices.Index(logits, best)
	st, err := NewState(p, len(logits), []int32{int32(first)}) // the penalty must not show in the figures
	if err != nil {
		t.Fatal(err)
	}
	raw := slices.Clone(logits)
	var s Sampler
	choice, err := s.Sample(logits, st, nil)
	if err != nil {
		t.Fatal(err)
	}
	if choice.Token == int32(first) {
		t.Error("the penalised token was chosen all the same")
	}
	check := func(id int32, got float32) {
		if want := float64(raw[id]) - math.Log(sum); math.Abs(float64(got)-want) > 1e-5 {
			t.Errorf("token %d: logprob %v, want %v", id, got, want)
		}
	}
	check(choice.Token, choice.Logprob)
	sorted := slices.Clone(raw)
	slices.Sort(sorted)
	for i, top := range choice.Top {
		check(top.Token, top.Logprob)
		if raw[top.Token] != sorted[len(sorted)-1-i] {
			t.Errorf("top %d is token %d with logit %v, want %v", i, top.Token, raw[top.Token], sorted[len(sorted)-1-i])
		}
	}
	if len(choice.Top) != 5 {
		t.Errorf("%d top logprobs, want 5", len(choice.Top))
	}
}

// TestArgmax holds the integer scan to the definition, at every length around its block and for the odd values.
func TestArgmax(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	odd := rapid.SampledFrom([]float32{0, float32(math.Copysign(0, -1)), -1, 1, 2, inf, -inf, nan, -nan, 1e-45, -1e-45})
	rapid.Check(t, func(t *rapid.T) {
		logits := rapid.SliceOfN(odd, 0, 40).Draw(t, "logits")
		at, best := argmax(logits)
		wantAt, want := argmaxFloat(logits)
		if at != wantAt || best != want {
			t.Fatalf("argmax %d, %v; want %d, %v", at, best, wantAt, want)
		}
	})
}

func TestBadRows(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	var s Sampler
	for want, logits := range map[string][]float32{
		"no token is left":                 {-inf, nan, -nan},
		"the logit of token 1 is +Inf":     {3, inf, nan},
		"sample: no token is left to choo": {},
	} {
		for _, temperature := range []float64{0, 1} {
			p := Default()
			p.Temperature = temperature
			st, err := NewState(p, 3, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Sample(slices.Clone(logits), st, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: got %v, want an error with %q", logits, err, want)
			}
		}
	}
	st, _ := NewState(Default(), 4, nil)
	if choice, err := s.Sample([]float32{nan, -inf, 1, nan}, st, nil); err != nil || choice.Token != 2 {
		t.Errorf("chose %v, %v beside NaN; want token 2", choice, err)
	}
}

func TestValidate(t *testing.T) {
	nan := math.NaN()
	for want, change := range map[string]func(*Params){
		"temperature is -1":                 func(p *Params) { p.Temperature = -1 },
		"temperature is NaN":                func(p *Params) { p.Temperature = nan },
		"temperature is +Inf":               func(p *Params) { p.Temperature = math.Inf(1) },
		"top_p is 0":                        func(p *Params) { p.TopP = 0 },
		"top_p is 1.5":                      func(p *Params) { p.TopP = 1.5 },
		"min_p is NaN":                      func(p *Params) { p.MinP = nan },
		"typical_p is -0.5":                 func(p *Params) { p.TypicalP = -0.5 },
		"repetition_penalty is 0":           func(p *Params) { p.RepetitionPenalty = 0 },
		"frequency_penalty is 3":            func(p *Params) { p.FrequencyPenalty = 3 },
		"presence_penalty is NaN":           func(p *Params) { p.PresencePenalty = nan },
		"top_k is -2":                       func(p *Params) { p.TopK = -2 },
		"repeat_last_n is -1":               func(p *Params) { p.PenaltyWindow = -1 },
		"top_logprobs is 21":                func(p *Params) { p.Logprobs, p.TopLogprobs = true, 21 },
		"top_logprobs is 3 but logprobs":    func(p *Params) { p.TopLogprobs = 3 },
		"logit_bias of token 1 is NaN":      func(p *Params) { p.LogitBias = map[int32]float64{1: nan} },
		"logit_bias names token 10":         func(p *Params) { p.LogitBias = map[int32]float64{10: 1} },
		"allowed_token_ids names token -1":  func(p *Params) { p.Allowed = []int32{-1} },
		"banned_token_ids names token 9999": func(p *Params) { p.Banned = []int32{9999} },
	} {
		p := Default()
		change(&p)
		if err := p.Validate(10); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	if p := Default(); p.Validate(10) != nil {
		t.Errorf("the default settings are refused: %v", p.Validate(10))
	}
}

// TestNoAllocations: sampling allocates nothing once the scratch memory has grown.
func TestNoAllocations(t *testing.T) {
	logits := row(5000, 1)
	work := make([]float32, len(logits))
	for _, setting := range settings {
		st, err := NewState(setting.params(), len(logits), []int32{1, 2, 3})
		if err != nil {
			t.Fatal(err)
		}
		s := Sampler{candidates: make([]candidate, 0, len(logits))}
		allocs := testing.AllocsPerRun(100, func() {
			copy(work, logits)
			choice, err := s.Sample(work, st, nil)
			if err != nil {
				t.Fatal(err)
			}
			st.Observe(choice.Token % 8)
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations per token", setting.name, allocs)
		}
	}
}

// TestLargeVocabulary holds rows that are counted rather than weighed, in part, to the definition: the token drawn is
// the one at the part u of the kept mass, to 1e-4.
func TestLargeVocabulary(t *testing.T) {
	var s Sampler
	for seed := range uint64(40) {
		logits := row(20000, seed)
		p := Default()
		p.Seed = seed
		p.Temperature = []float64{0.1, 0.7, 1, 3, 100}[seed%5]
		p.TopP = []float64{1, 0.9, 0.5, 0.9999}[seed%4]
		p.Logprobs = true
		st, err := NewState(p, len(logits), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Sample(logits, st, nil)
		if err != nil {
			t.Fatal(err)
		}
		all := p
		all.TopP = 1
		tokens, _ := oracle(logits, &all, nil, nil, nil)
		kept, below, drawn := 0.0, 0.0, 0.0
		for _, o := range tokens {
			if kept < p.TopP {
				kept += o.p
			}
			if drawn == 0 && o.id != got.Token {
				below += o.p
			} else if o.id == got.Token {
				drawn = o.p
			}
		}
		if at := uniform(seed, 0) * kept; at < below-1e-4 || at > below+drawn+1e-4 {
			t.Errorf("temperature %v, top_p %v: token %d spans [%v, %v] of the mass; u is at %v", p.Temperature, p.TopP, got.Token, below, below+drawn, at)
		}
		var sum float64
		for _, x := range logits {
			sum += math.Exp(float64(x))
		}
		if want := float64(logits[got.Token]) - math.Log(sum); math.Abs(float64(got.Logprob)-want) > 1e-4 {
			t.Errorf("logprob %v, want %v", got.Logprob, want)
		}
	}
}
