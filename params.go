package ridge

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/sample"
)

// The numbers that go in and out of sampling; they know nothing of engines or devices.
type (
	// Sampling is how the next token is chosen: temperature, top-k, penalties …
	Sampling = sample.Params
	// Sampled is a token that was chosen, with logprobs if they were asked for.
	Sampled = sample.Choice
	// Logprob is a token and the natural logarithm of its probability.
	Logprob = sample.Logprob
	// FinishReason is why an answer ended.
	FinishReason = sample.Reason
)

// Why answers end.
const (
	FinishStop   = sample.ReasonStop   // a stop string or token, or the model's end of sequence
	FinishLength = sample.ReasonLength // Params.MaxTokens, or the context is full

	MaxStops = sample.MaxStopStrings // strings that Params.Stop may have
)

// Params says how to answer one request. The zero value answers as Model.Defaults does, until the answer ends.
type Params struct {
	Sampling    Sampling // the zero value is that of Model.Defaults; else start from that or Greedy, since its fields have no defaults one by one
	MaxTokens   int      // of the answer; 0: until it ends or the context is full
	Stop        []string // the answer ends before the first of these, MaxStops at most
	StopIDs     []int32  // or at one of these tokens, beside the model's own
	IncludeStop bool     // the answer has the stop string, or the text of the stop token, at its end
	MinTokens   int      // until then no end token and none of StopIDs is chosen
	// PromptLogprobs has the first piece of the answer say the log-probabilities of the prompt's tokens, with Sampling.TopLogprobs of the likeliest. The prompt is computed
	// whole then, without what is cached of it.
	PromptLogprobs bool
	NoAnswer       bool         // the prompt is computed, and the answer has no tokens, whatever MaxTokens says
	IgnoreEnd      bool         // go on after the model's end tokens
	Special        bool         // write the special tokens of the answer out, as chat.OutputParser needs them
	Embeddings     []float32    // the prompt, [its tokens, Model.Width()], in place of its ids, which may be any; see GenerateEmbeddings
	Diffusion      Diffusion    // how the answer of a masked diffusion model is found
	Beams          *BeamSearch  // answers are searched for, see there; Sampling does not matter but for Logprobs. nil: they are sampled
	Constraint     *Constraint  // a language that the answer must be in; nil: any
	Priority       int          // under the priority policy: lower goes first
	Adapters       []UseAdapter // that act on the answer and its prompt; their changes add up
	Salt           string       // only requests of equal salt share what is cached of their prompts
	Remote         *RemoteKV    // what another server has computed of the prompt, or is to go on from; nil: none
	Tenant         string       // nor do requests of different tenants, whatever their salts
}

// salt is Tenant and Salt as the engine wants them. A salt that equals that of another tenant cannot be searched for: that
// takes the model's secret.
func (m *Model) salt(p *Params) uint64 {
	if p.Salt == "" && p.Tenant == "" {
		return 0
	}
	h := hmac.New(sha256.New, m.secret[:])
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(p.Tenant))))
	h.Write([]byte(p.Tenant + p.Salt))
	return binary.LittleEndian.Uint64(h.Sum(nil)) &^ kv.Local
}

// shown reports whether a recording that hides tokens keeps a request's.
func (m *Model) shown(p *Params) bool { return p.Tenant != "" && p.Tenant == m.recordOf }

// SamplerNames are the names that Sampling.Samplers may have.
func SamplerNames() []string { return sample.SamplerNames() }

// Greedy is the likeliest token every time.
func Greedy() Params {
	p := Params{Sampling: sample.Default()}
	p.Sampling.Temperature = 0
	return p
}

// Defaults is what the model's authors recommend in generation_config.json; without that, temperature 0.8, top-p
// 0.95, top-k 40.
func (m *Model) Defaults() Params {
	a := m.advice
	if a.Greedy || m.FillsIn() && a.Temperature == nil { // confidence is what orders the tokens of such a model, and noise blurs it
		return Greedy()
	}
	p := Params{Sampling: sample.Default()}
	s := &p.Sampling
	if a.Temperature == nil && a.TopP == nil && a.TopK == nil {
		s.Temperature, s.TopP, s.TopK = 0.8, 0.95, 40
		return p
	}
	set(&s.Temperature, a.Temperature)
	set(&s.TopP, a.TopP)
	set(&s.TopK, a.TopK)
	set(&s.MinP, a.MinP)
	set(&s.RepetitionPenalty, a.RepetitionPenalty)
	return p
}

// set takes a value over if there is one.
func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}
