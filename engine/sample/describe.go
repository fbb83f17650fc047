package sample

import (
	"fmt"
	"math"
	"slices"

	"github.com/ridge-llm/ridge/backend/sampling"
)

// Logprob is a token and the natural logarithm of its probability.
type Logprob = sampling.Logprob

// Describe says what Sampler.Sample would do with the state's next row, for a device that does it: it fills d but for Row, reusing its
// lists. mask is as in Sample, as long as the vocabulary, and must stay as it is until the device has taken the sample. future, if
// not negative, is the index of the previous step's sample that will be the state's last token: Observe has not been told of it.
func (s *State) Describe(d *sampling.Sample, mask []uint32, future int) {
	p := &s.params
	outputs := s.outputs
	if future >= 0 {
		outputs++
	}
	*d = sampling.Sample{
		Temperature: p.Temperature, TopK: p.TopK, TopP: p.TopP, MinP: p.MinP, TypicalP: p.TypicalP, U: uniform(p.Seed, outputs),
		Mask: s.masked(mask), Edits: s.edits(d.Edits[:0], outputs < uint64(p.MinTokens), future >= 0), Future: -1,
		Repetition: float32(p.RepetitionPenalty), Frequency: float32(p.FrequencyPenalty), Presence: float32(p.PresencePenalty),
		Logprob: p.Logprobs, Top: p.TopLogprobs,
	}
	if p.greedy() {
		d.Temperature = 0
	}
	if p.penalised() {
		d.Future = future
	}
}

// DescribeAfter is Describe of the row that comes after tokens that Observe has not been told of: those of a draft.
func (s *State) DescribeAfter(d *sampling.Sample, mask []uint32, drafted []int32) {
	s.After(drafted).Describe(d, mask, -1)
}

// After is the state after more tokens. It is valid until the next call and the next Observe.
func (s *State) After(drafted []int32) *State {
	if s.ahead == nil {
		s.ahead = &State{}
	}
	a := s.ahead
	history, repeats := a.history, a.repeats
	*a = State{params: s.params, static: s.static, bias: s.bias, fixed: s.fixed, most: s.most, next: bound{after: -1}, outputs: s.outputs + uint64(len(drafted))}
	if s.params.penalised() {
		history.copy(&s.history)
		for _, id := range drafted {
			history.add(id, true)
		}
	}
	if s.params.dry() {
		repeats.copy(&s.repeats)
		for _, id := range drafted {
			repeats.add(id)
		}
	}
	a.history, a.repeats = history, repeats
	return a
}

// masked is mask and the request's own in one.
func (s *State) masked(mask []uint32) []uint32 {
	if mask == nil || s.static == nil {
		if mask == nil {
			return s.static
		}
		return mask
	}
	s.both = append(s.both[:0], mask...)
	for i, word := range s.static {
		s.both[i] &= word
	}
	return s.both
}

// edits lists what bias, the ban on an early end and penalties do to the row. With future, one token more will have been seen, and
// the oldest leaves a window that is full.
func (s *State) edits(list []sampling.Edit, early, future bool) []sampling.Edit {
	leaves := int32(-1)
	if h := &s.history; future && h.limit > 0 && len(h.window) == h.limit {
		leaves = h.window[h.oldest]
	}
	add := func(id int32, value float32, e entry) {
		if id == leaves {
			e.seen--
			e.counted--
		}
		if value != 0 || e.seen > 0 {
			list = append(list, sampling.Edit{ID: id, Add: value, Seen: e.seen, Counted: e.counted})
		}
	}
	for _, f := range s.fixed {
		value := f.value
		if early && f.late {
			value = float32(math.Inf(-1))
		}
		add(f.id, value, s.history.count(f.id))
	}
	for _, e := range s.history.entries {
		if e.seen == 0 {
			continue
		}
		if _, found := slices.BinarySearchFunc(s.fixed, e.id, fixed.compare); !found {
			add(e.id, 0, e)
		}
	}
	return list
}

// fixed is what a request's settings do to one token from its beginning to its end: Params.LogitBias and Late in one.
type fixed struct {
	id    int32
	value float32 // added
	late  bool    // must not end the output early
}

func (f fixed) compare(id int32) int { return int(f.id) - int(id) }

// fix lists the tokens that the settings name, by id.
func fix(biases []bias, late []int32) (list []fixed) {
	for _, b := range biases {
		list = append(list, fixed{id: b.id, value: b.value})
	}
	for _, id := range late {
		at, found := slices.BinarySearchFunc(list, id, fixed.compare)
		if !found {
			list = slices.Insert(list, at, fixed{id: id})
		}
		list[at].late = true
	}
	return list
}

// count is the entry of id; zeros if it has none.
func (h *history) count(id int32) entry {
	if len(h.table) == 0 {
		return entry{}
	}
	for at := h.place(id); h.table[at] != 0; at = (at + 1) & (len(h.table) - 1) {
		if e := h.entries[h.table[at]-1]; e.id == id {
			return e
		}
	}
	return entry{}
}

// FromResult is what a device sampled, as Sampler.Sample would return it; valid as long as d.
func FromResult(d *sampling.Result) (Choice, error) {
	switch d.Failure {
	case sampling.Empty:
		return Choice{}, errNothingLeft
	case sampling.Infinite:
		return Choice{}, infinite(d.Token)
	}
	return Choice{Token: d.Token, Logprob: d.Logprob, Top: d.Top}, nil
}

// infinite is the error of a row whose likeliest token has the logit +Inf.
func infinite(token int32) error {
	return fmt.Errorf("sample: the logit of token %d is +Inf; the model's numbers have overflowed", token)
}
