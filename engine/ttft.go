package engine

import (
	"time"

	"github.com/ridge-llm/ridge/engine/sched"
)

// ttft estimates the time to first token of a request that comes now, as far as it depends on the requests before it: at least how
// long its queue delay and its prefill take. It goes by the price of steps like those of now.
type ttft struct {
	answering time.Duration // a step that gives every running request a token
	perToken  time.Duration // of a prompt: its part of a step full of prompts, the answers beside it included
	turnover  time.Duration // from one end of a running request to the next, when all places are taken; 0: not known
	free      int           // places for running requests
	waiting   int           // requests before it
	backlog   int           // tokens to compute before all of those have had a first token
}

// estimateTTFT looks at where the engine stands. e.mu is held.
func (e *Engine) estimateTTFT() ttft {
	s := &e.published
	lim := e.prog.Limits()
	o := ttft{waiting: s.Waiting + len(e.inbox), backlog: s.Backlog, free: lim.Seqs - s.Running}
	for _, r := range e.inbox {
		o.backlog += len(r.Prompt)
	}
	answers := sched.Shape{Tokens: s.Running, Logits: s.Running, Rows: s.CacheRows, Pairs: s.CacheRows}
	step := 0.0 // s
	if s.Running > 0 {
		step = e.predict(answers)
	}
	o.answering = seconds(step)
	o.perToken = seconds(e.perToken(answers, step))
	o.turnover = seconds(s.Answer * step / float64(max(s.Running, 1)))
	return o
}

// perToken is what reading a token of a prompt takes beside those who answer, s, in steps as large as they may be.
func (e *Engine) perToken(answers sched.Shape, step float64) float64 {
	n := max(e.stepTokens-answers.Tokens, 1)
	full := answers
	full.Tokens += n
	full.Rows += n
	full.Pairs += n * (n + 1) / 2
	whole := e.predict(full)
	if target := e.targetITL.Seconds(); target > 0 && answers.Tokens > 0 && whole > target && whole > step {
		each := (whole - step) / float64(n)
		fits := max((target-step)/each, float64(e.prog.Limits().PageSize))
		return (step + fits*each) / fits
	}
	return whole / float64(n)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// wait is at least how long a request with a prompt of so many tokens waits for its first token: until those before it have
// been read, and until there is a place for it.
func (o *ttft) wait(prompt int) time.Duration {
	reading := time.Duration(o.backlog+prompt) * o.perToken
	ends := max(o.waiting+1-o.free, 0) // that have to come first
	return max(reading, time.Duration(ends)*o.turnover+time.Duration(prompt)*o.perToken)
}
