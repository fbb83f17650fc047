package sample

import (
	"math"
	"slices"
)

// State is what sampling remembers of one request: its settings, and the tokens that penalties and the random
// counter depend on. It belongs to one goroutine at a time.
type State struct {
	params  Params
	static  []uint32 // allowed and banned ids as a mask, [vocab/32]; nil if neither is set
	bias    []bias   // logit_bias, by id
	history history  // empty unless a penalty is on
	repeats repeats  // empty unless DRY is on
	outputs uint64   // output tokens so far
	again   uint64   // see Again
	place   uint64   // likewise
	fixed   []fixed  // bias and Params.Late, for devices; see Describe
	both    []uint32 // static and a grammar's mask in one, likewise
	ahead   *State   // after tokens of a draft; see DescribeAfter
	most    float64  // Mirostat's bound on the surprise of the next token, in bits
	next    bound    // of the token behind the one that was last sampled
}

// bound is what Mirostat's bound becomes if the token is observed.
type bound struct {
	after int32
	most  float64
}

type bias struct {
	id    int32
	value float32
}

// NewState checks params against a vocabulary of that many tokens and returns the state of a request with that
// prompt. The prompt is read only if a penalty needs it.
func NewState(params Params, vocab int, prompt []int32) (*State, error) {
	if err := params.Validate(vocab); err != nil {
		return nil, err
	}
	s := &State{params: params, static: staticMask(&params, vocab)}
	for id, value := range params.LogitBias {
		s.bias = append(s.bias, bias{id, float32(value)})
	}
	slices.SortFunc(s.bias, func(a, b bias) int { return int(a.id) - int(b.id) })
	s.fixed = fix(s.bias, params.Late)
	s.most, s.next = 2*params.MirostatTau, bound{after: -1}
	if params.penalised() {
		s.history.reset(params.PenaltyWindow)
		for _, id := range prompt {
			s.history.add(id, false)
		}
	}
	if params.dry() {
		s.repeats.limit = params.DryWindow
		s.repeats.tokens = slices.Clone(prompt)
	}
	return s, nil
}

// Observe tells the state that id is the request's next output token. Call it for every token that joins the answer,
// sampled or forced, in order.
func (s *State) Observe(id int32) {
	s.outputs++
	if s.params.Mirostat > 0 && s.next.after == id {
		s.most = s.next.most
	}
	s.next = bound{after: -1}
	if s.params.penalised() {
		s.history.add(id, true)
	}
	if s.params.dry() {
		s.repeats.add(id)
	}
}

// Again is for tokens that are found in any order, several before one is observed: the next Sample is for the one behind place others that are not, and
// draws another random number than those with other n.
func (s *State) Again(n, place int) { s.again, s.place = uint64(n)<<32, uint64(place) }

// Order is a random number of the request that no token is drawn with, in [0, 1): for the order in which tokens are found that are found in any.
func (s *State) Order(step, place int) float64 {
	return uniform(mix(s.params.Seed), uint64(step)<<32|uint64(uint32(place)))
}

// changesLogits reports whether anything but temperature and the filters will touch the row.
func (s *State) changesLogits(mask []uint32) bool {
	return mask != nil || s.static != nil || len(s.bias) > 0 || s.params.penalised() || s.params.dry() || s.early()
}

// early reports whether the output must not end yet.
func (s *State) early() bool { return s.outputs+s.place < uint64(s.params.MinTokens) }

// adjust applies masks and bias to the row.
func (s *State) adjust(logits []float32, mask []uint32) {
	if s.static != nil {
		applyMask(logits, s.static)
	}
	if mask != nil {
		applyMask(logits, mask)
	}
	if s.early() {
		for _, id := range s.params.Late {
			if int(id) < len(logits) {
				logits[id] = float32(math.Inf(-1))
			}
		}
	}
	for _, b := range s.bias {
		if int(b.id) < len(logits) {
			logits[b.id] += b.value
		}
	}
}

// penalise applies the three penalties to the tokens that have occurred, in vLLM's order. The logits are still to be divided by temperature.
func (s *State) penalise(logits []float32, temperature float64) {
	repetition := float32(s.params.RepetitionPenalty)
	frequency, presence := float32(s.params.FrequencyPenalty*temperature), float32(s.params.PresencePenalty*temperature)
	for _, e := range s.history.entries {
		if e.seen == 0 || uint(e.id) >= uint(len(logits)) {
			continue // it has left the window, or is an id that this row does not have
		}
		x := logits[e.id]
		if x > 0 {
			x /= repetition
		} else {
			x *= repetition
		}
		if e.counted > 0 {
			x -= frequency*float32(e.counted) + presence
		}
		logits[e.id] = x
	}
}

// applyMask sets to −Inf every logit whose bit is clear: bit i%32 of word i/32 stands for token i. Tokens past the
// mask's end are not allowed.
func applyMask(logits []float32, mask []uint32) {
	never := float32(math.Inf(-1))
	for len(logits) > 0 {
		var word uint32
		if len(mask) > 0 {
			word, mask = mask[0], mask[1:]
		}
		block := logits[:min(32, len(logits))]
		logits = logits[len(block):]
		if word == math.MaxUint32 {
			continue
		}
		for i := range block {
			if word>>i&1 == 0 {
				block[i] = never
			}
		}
	}
}

// staticMask returns the mask of a request's allowed and banned ids, or nil if it names none.
func staticMask(p *Params, vocab int) []uint32 {
	if len(p.Allowed) == 0 && len(p.Banned) == 0 {
		return nil
	}
	mask := make([]uint32, (vocab+31)/32)
	for _, id := range p.Allowed {
		mask[id/32] |= 1 << (id % 32)
	}
	if len(p.Allowed) == 0 {
		for i := range mask {
			mask[i] = math.MaxUint32
		}
	}
	for _, id := range p.Banned {
		mask[id/32] &^= 1 << (id % 32)
	}
	return mask
}
