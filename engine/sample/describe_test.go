package sample

import (
	"math"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend/sampling"
	"pgregory.net/rapid"
)

// TestDescribeIsSample: what Describe tells a device leads, by the definition (sampling.Reference), to the token that Sample chooses, whether
// the last token of the output is known when the sample is described or not.
func TestDescribeIsSample(t *testing.T) {
	var s Sampler
	rapid.Check(t, func(t *rapid.T) {
		vocab := rapid.IntRange(1, 200).Draw(t, "vocab")
		logits := make([]float32, vocab)
		for i := range logits {
			logits[i] = float32(rapid.IntRange(-20, 20).Draw(t, "logit")) / 4
		}
		p := drawParams(t, vocab)
		p.MinTokens = rapid.IntRange(0, 4).Draw(t, "min_tokens")
		p.Late = rapid.SliceOfN(rapid.Int32Range(0, int32(vocab-1)), 0, 3).Draw(t, "late")
		p.Logprobs, p.TopLogprobs = true, rapid.IntRange(0, 5).Draw(t, "top_logprobs")
		token := rapid.Int32Range(0, int32(vocab-1))
		prompt, output := rapid.SliceOf(token).Draw(t, "prompt"), rapid.SliceOfN(token, 1, 20).Draw(t, "output")
		var mask []uint32
		if rapid.Bool().Draw(t, "masked") {
			mask = rapid.SliceOfN(rapid.Uint32(), (vocab+31)/32, (vocab+31)/32).Draw(t, "mask")
		}
		st, err := NewState(p, vocab, prompt)
		if err != nil {
			t.Fatal(err)
		}
		last := len(output) - 1
		for _, id := range output[:last] {
			st.Observe(id)
		}
		var ahead, now sampling.Sample
		st.Describe(&ahead, mask, 7)
		early := sampling.Reference(&ahead, logits, output[last])
		st.Observe(output[last])
		st.Describe(&now, mask, -1)
		known := sampling.Reference(&now, logits, 0)
		if early.Token != known.Token || early.Failure != known.Failure {
			t.Fatalf("sampled %+v before the last token was known and %+v after", early, known)
		}
		want, err := s.Sample(slices.Clone(logits), st, mask)
		if got, failed := FromResult(&known); (failed == nil) != (err == nil) {
			t.Fatalf("the device says %+v, %v; Sample %+v, %v", got, failed, want, err)
		}
		if err != nil || !unambiguous(&now, logits) {
			return
		}
		if _, margin := oracle(logits, &p, prompt, output, mask); margin < 1e-5 {
			return
		}
		if known.Token != want.Token || math.Abs(float64(known.Logprob-want.Logprob)) > 1e-5 || len(known.Top) != len(want.Top) {
			t.Fatalf("the device samples %+v; Sample %+v", known, want)
		}
		for i := range want.Top {
			if known.Top[i].Token != want.Top[i].Token {
				t.Fatalf("the device's likeliest are %v; Sample's %v", known.Top, want.Top)
			}
		}
	})
}

// unambiguous reports whether the random number is clear of the border between two tokens.
func unambiguous(d *sampling.Sample, logits []float32) bool {
	low, high := *d, *d
	low.U, high.U = max(0, d.U-1e-6), d.U+1e-6
	return sampling.Reference(&low, logits, 0).Token == sampling.Reference(&high, logits, 0).Token
}
