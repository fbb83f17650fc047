package predict

import (
	"time"

	"github.com/ridge-llm/ridge/engine/sched"
)

// Load is where an engine stands, as far as the time to first token of a request that comes now depends on it.
type Load struct {
	Running, Waiting int
	Free             int     // places for running requests
	Backlog          int     // tokens to compute before all requests have had a first token
	CacheRows        int     // that the running requests' next tokens attend to
	Answer           float64 // tokens of an answer, on average

	StepTokens int // in a step at most
	PageSize   int
	TargetITL  time.Duration // that prompts are to leave the answers beside them; 0: none
	ITLRatio   float64       // where there is no target: how many times as long as with answers alone prompts may make a step; 0: any
}

// TTFT estimates the time to first token of a request that comes now, as far as it depends on the requests before it: at least how
// long its queue delay and its prefill take. It goes by the price of steps like those of now.
type TTFT struct {
	answering time.Duration // a step that gives every running request a token
	perToken  time.Duration // of a prompt: its part of a step full of prompts, the answers beside it included
	turnover  time.Duration // from one end of a running request to the next, when all places are taken; 0: not known
	free      int
	waiting   int
	backlog   int
}

// TTFT estimates it for an engine.
func (t *Times) TTFT(l Load) TTFT {
	e := TTFT{waiting: l.Waiting, backlog: l.Backlog, free: l.Free}
	answers := sched.Shape{Tokens: l.Running, Logits: l.Running, Rows: l.CacheRows, Pairs: l.CacheRows}
	step := 0.0 // s
	if l.Running > 0 {
		step = t.Predict(answers)
	}
	e.answering = duration(step)
	e.perToken = duration(t.perToken(&l, answers, step))
	e.turnover = duration(l.Answer * step / float64(max(l.Running, 1)))
	return e
}

// perToken is what reading a token of a prompt takes beside the running answers, s, in steps as large as they may be.
func (t *Times) perToken(l *Load, answers sched.Shape, step float64) float64 {
	n := max(l.StepTokens-answers.Tokens, 1)
	full := answers
	full.Tokens += n
	full.Rows += n
	full.Pairs += n * (n + 1) / 2
	whole := t.Predict(full)
	target := l.TargetITL.Seconds()
	if target == 0 {
		target = l.ITLRatio * step
	}
	if target > 0 && answers.Tokens > 0 && whole > target && whole > step {
		each := (whole - step) / float64(n)
		fits := max((target-step)/each, float64(l.PageSize))
		return (step + fits*each) / fits
	}
	return whole / float64(n)
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// Wait is at least how long a request with a prompt of so many tokens waits for its first token: until those before it have
// been read, and until there is a place for it.
func (e *TTFT) Wait(prompt int) time.Duration {
	reading := time.Duration(e.backlog+prompt) * e.perToken
	ends := max(e.waiting+1-e.free, 0) // that have to come first
	return max(reading, time.Duration(ends)*e.turnover+time.Duration(prompt)*e.perToken)
}

// Token is what a token of a prompt takes.
func (e *TTFT) Token() time.Duration { return e.perToken }
