package sample

import (
	"math"
	"slices"
	"testing"
)

// mirostatOf is the tokens that Mirostat draws from, likeliest first, by its definition.
func mirostatOf(row []float32, version int, bits, temperature float64) []outcome {
	p := Default()
	p.Temperature = temperature
	tokens, _ := oracle(row, &p, nil, nil, nil)
	tokens = normalise(tokens)
	if version == 2 {
		n := 1
		for n < len(tokens) && -math.Log2(tokens[n].p) <= bits {
			n++
		}
		return normalise(tokens[:n])
	}
	var products, squares float64
	for i := 0; i < 99 && i+1 < len(tokens); i++ {
		t, b := math.Log(float64(i+2)/float64(i+1)), math.Log(tokens[i].p/tokens[i+1].p)
		products += t * b
		squares += t * t
	}
	s := products / squares
	e := s - 1
	k := math.Pow(e*math.Exp2(bits)/(1-math.Pow(float64(len(row)), -e)), 1/s)
	return normalise(tokens[:max(1, int(min(k, float64(len(tokens)))))])
}

// TestMirostat: token by token both versions draw from what their definition says, with a bound that follows the
// surprise of what was drawn, and reach the surprise asked for.
func TestMirostat(t *testing.T) {
	const vocab, n = 2000, 300
	for _, version := range []int{1, 2} {
		for _, tau := range []float64{2, 3} {
			p := Default()
			p.Mirostat, p.MirostatTau, p.Temperature, p.Seed = version, tau, 1.1, uint64(version)
			p.TopK, p.RepetitionPenalty = 1, 9 // neither counts
			st, err := NewState(p, vocab, nil)
			if err != nil {
				t.Fatal(err)
			}
			var s Sampler
			bits, total := 2*tau, 0.0
			for i := range uint64(n) {
				logits := row(vocab, i)
				want := mirostatOf(logits, version, bits, p.Temperature)
				got, err := s.Sample(slices.Clone(logits), st, nil)
				if err != nil {
					t.Fatal(err)
				}
				u, below, surprise := uniform(p.Seed, i), 0.0, -1.0
				for _, o := range want {
					if o.id == got.Token {
						surprise = -math.Log2(o.p)
						if u < below-1e-5 || u > below+o.p+1e-5 {
							t.Fatalf("version %d, token %d: %d is drawn by [%v, %v], not %v", version, i, o.id, below, below+o.p, u)
						}
					}
					below += o.p
				}
				if surprise < 0 {
					t.Fatalf("version %d, token %d: %d is not among the %d that are left", version, i, got.Token, len(want))
				}
				bits -= p.MirostatEta * (surprise - tau)
				if st.Observe(got.Token); math.Abs(st.most-bits) > 1e-3 {
					t.Fatalf("version %d, token %d: the bound is %v, not %v", version, i, st.most, bits)
				}
				bits = st.most
				total += surprise
			}
			if mean := total / n; math.Abs(mean-tau) > 0.3 {
				t.Errorf("version %d: the mean surprise is %.2f bits, not %v", version, mean, tau)
			}
		}
	}
}

// TestMirostatOfDraft: the bound of a request that goes on is that of the tokens that joined the answer.
func TestMirostatOfDraft(t *testing.T) {
	p := Default()
	p.Mirostat = 2
	st, err := NewState(p, 50, nil)
	if err != nil {
		t.Fatal(err)
	}
	var s Sampler
	if _, err := s.Sample(row(50, 1), st.After([]int32{0, 3}), nil); err != nil {
		t.Fatal(err)
	}
	if st.Observe(0); st.most != 2*p.MirostatTau {
		t.Errorf("a token that was not sampled moved the bound to %v", st.most)
	}
	choice, err := s.Sample(row(50, 1), st, nil)
	if err != nil {
		t.Fatal(err)
	}
	if st.Observe(choice.Token); st.most == 2*p.MirostatTau {
		t.Error("a sampled token did not move the bound")
	}
}
