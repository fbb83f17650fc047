package engine

import (
	"math"
	"runtime/debug"
	"slices"

	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/engine/sample"
)

// A request with PromptLogprobs set has the log-probability of each token of its prompt handed to it, but of the first, which nothing precedes: a
// step's logits have a row for each of its prompt's tokens beside those of answers, so that its chunks of a prompt are no longer than what Limits.Logits
// leaves. The cache has no logits: none of its prompt is taken from there.

// answers reports whether the request is to get tokens: one with MaxTokens of 0 ends when its prompt is computed.
func (r *request) answers() bool { return answers(&r.Request) }

func answers(r *Request) bool { return r.Hidden == nil && r.MaxTokens > 0 }

// promptRow is a row of a step's logits that predicts a token of a prompt.
type promptRow struct {
	request  *request
	position int // of the token
	row      int // of the step's logits
	first    int // index of its sample, where the device samples

	choice sample.Choice // set by take
	err    error
}

// token is the one that the row predicts.
func (p *promptRow) token() int32 { return p.request.Prompt[p.position] }

// sparePromptRows is how many rows of logits the scheduled step leaves when each of its requests, and each token of a draft, has one.
func (l *loop) sparePromptRows() int {
	n := l.prog.Limits().Logits
	for _, c := range l.queue.schedule.Chunks {
		n -= 1 + len(l.queue.byID[c.Request.ID].draft.Tokens)
	}
	return max(n, 0)
}

// fitPromptRows cuts a chunk of n tokens from a position on to those whose rows there are: the spare ones, of which those that it takes are no longer, and the
// request's own, which is not needed before the prompt's last token.
func (r *request) fitPromptRows(from, n int, spare *int) int {
	if r.PromptLogprobs == nil {
		return n
	}
	first := max(from, r.asked)
	rows := max(min(from+n, len(r.Prompt)-1)-first, 0)
	if rows > *spare {
		rows = *spare + 1
		*spare = 0
		return first + rows - from
	}
	*spare -= rows
	return n
}

// fillPromptRows adds the rows that the request's PromptLogprobs needs to those whose logits are wanted. first is the row of the advance's first token.
func (f *InFlight) fillPromptRows(a *advance, first int) {
	r := a.request
	if r.PromptLogprobs == nil {
		return
	}
	for ; r.asked < min(a.from+a.tokens, len(r.Prompt)-1); r.asked++ {
		if r.Forced == nil {
			f.prompts = append(f.prompts, promptRow{request: r, position: r.asked + 1, row: len(f.batch.LogitsIndices)})
		}
		f.batch.LogitsIndices = append(f.batch.LogitsIndices, int32(first+r.asked-a.from))
	}
}

// surely is added to the logit of a token that a device is to choose.
const surely = 1e30

// describe asks a device for the log-probability: to choose the token whatever the row says.
func (p *promptRow) describe(d *sampling.Sample) {
	*d = sampling.Sample{
		Row: p.row, TopP: 1, TypicalP: 1, Repetition: 1, Future: -1, Logprob: true, Top: p.request.Params.TopLogprobs,
		Edits: append(d.Edits[:0], sampling.Edit{ID: p.token(), Add: surely}),
	}
}

func (s *deviceSampler) promptChoice(f *InFlight, p *promptRow, _ int) (sample.Choice, error) {
	c, err := sample.FromResult(&f.results[p.first])
	if err == nil && c.Token != p.token() { // its logit is −Inf or NaN
		c.Token, c.Logprob = p.token(), float32(math.Inf(-1))
	}
	return c, err
}

func (s *hostSampler) promptChoice(_ *InFlight, p *promptRow, thread int) (sample.Choice, error) {
	vocab := s.prog.Vocab()
	return s.samplers[thread].Score(s.rows[p.row*vocab:][:vocab], p.token(), p.request.Params.TopLogprobs)
}

// take finds the log-probability.
func (p *promptRow) take(s sampler, f *InFlight, thread int) {
	if p.request.ended {
		return
	}
	p.choice, p.err = s.promptChoice(f, p, thread)
	p.choice.Top = slices.Clone(p.choice.Top) // the sampler's own until now
}

// takePrompts hands out the log-probabilities of the step's prompts.
func (l *loop) takePrompts(f *InFlight) {
	if len(f.prompts) == 0 {
		return
	}
	l.pool.takePrompts(f, l.meter.long)
	for i := range f.prompts {
		p := &f.prompts[i]
		if p.request.ended {
			continue
		}
		if p.err == nil {
			p.err = p.give()
		}
		if p.err != nil {
			l.end(p.request, "", p.err)
		}
	}
}

// give hands one over. A panic of the owner's ends that request alone.
func (p *promptRow) give() (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = &PanicError{x, debug.Stack()}
		}
	}()
	p.request.PromptLogprobs(p.position, p.choice)
	p.request.scored = p.position
	return nil
}

// endPrompts ends the requests that ask for no answer and whose prompts the step has completed.
func (l *loop) endPrompts(f *InFlight) {
	for i := range f.requests {
		if a := &f.requests[i]; a.rows > 0 && a.request.Hidden == nil && !a.request.answers() && !a.request.ended {
			l.end(a.request, sample.ReasonLength, nil)
		}
	}
}
