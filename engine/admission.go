package engine

import (
	"context"
	"time"

	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/account"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/engine/predict"
	"github.com/ridge-llm/ridge/engine/sample"
)

// admission decides which requests are taken. Any goroutine may ask it.
type admission struct {
	prog       compile.Runner
	ids        int // that tokens may have
	diffusion  *Diffusion
	inbox      *inbox
	keys       func(dst []kv.Key, salt kv.Salt, tokens []int32) []kv.Key // of a text's pages; nil: they are not kept beyond the device
	clock      clock
	times      *predict.Times
	stepTokens int // at most
	targetITL  time.Duration
	itlRatio   float64
	maxWaiting int
}

// submit is Engine.Submit.
func (a *admission) submit(ctx context.Context, r Request, siblings []Request) error {
	q, err := a.prepare(ctx, r)
	if err != nil {
		return err
	}
	for _, s := range siblings {
		s.Prompt, s.Embeddings, s.Salt, s.Priority, s.Adapters, s.PromptLogprobs = r.Prompt, r.Embeddings, r.Salt, r.Priority, r.Adapters, nil
		p, err := a.prepare(ctx, s)
		if err != nil {
			return err
		}
		p.whole = q.whole // what it begins with is not in the cache
		q.siblings = append(q.siblings, p)
	}
	in := a.inbox
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := a.refusal(ctx, len(r.Prompt)); err != nil {
		return err
	}
	in.submitted = append(in.submitted, q)
	if a.diffusion != nil { // every answer has blocks of its own from the first step on
		in.submitted, q.siblings = append(in.submitted, q.siblings...), nil
	}
	in.signal()
	return nil
}

// prepare checks what does not depend on the other requests.
func (a *admission) prepare(ctx context.Context, r Request) (*request, error) {
	room := room(a.prog.Limits())
	switch {
	case r.Hidden == nil && a.prog.Encoder():
		return nil, invalid("the model is an encoder: it makes embeddings of texts and generates none; ask for embeddings, or load a model that generates")
	case len(r.Prompt) == 0:
		return nil, invalid("the prompt is empty; it must have at least one token")
	case r.PromptLogprobs != nil && (r.Hidden != nil || r.Embeddings != nil):
		return nil, invalid("log-probabilities of the prompt are asked for, and the request is for embeddings or its prompt is embeddings, not token ids")
	case r.MaxTokens < 0 && r.Hidden == nil:
		return nil, invalid("max_tokens is %d; it must be 1 or more, or 0 to have the prompt computed alone", r.MaxTokens)
	case r.MaxTokens == 0 && r.Hidden == nil && a.diffusion != nil:
		return nil, invalid("max_tokens is 0, and what a model that fills masked tokens in has computed of a prompt alone is of no use later; ask for 1 or more")
	case !answers(&r) && len(r.Prompt) > room:
		return nil, tooLong("the text has %d tokens and the context is %d; shorten the text or load the model with a larger context", len(r.Prompt), room)
	case answers(&r) && len(r.Prompt) >= room:
		return nil, tooLong("the prompt has %d tokens and the context is %d, which must hold at least one token more; shorten the prompt or load the model with a larger context", len(r.Prompt), room)
	}
	if err := checkHidden(&r, a.prog.HiddenWidth()); err != nil {
		return nil, err
	}
	if err := checkAdapters(&r, a.prog.Limits()); err != nil {
		return nil, err
	}
	if err := a.checkDiffusion(&r); err != nil {
		return nil, err
	}
	for i, id := range r.Prompt {
		if id < 0 || int(id) >= a.ids {
			return nil, invalid("token %d of the prompt is %d; the vocabulary has %d", i, id, a.ids)
		}
	}
	seen := r.Prompt // by penalties
	if r.Embeddings != nil {
		if err := checkEmbeddings(&r, a.prog.HiddenWidth()); err != nil {
			return nil, err
		}
		seen = nil
	}
	state, err := sample.NewState(r.Params, a.ids, seen)
	if err != nil {
		return nil, &InvalidError{Reason: err.Error()}
	}
	q := &request{Request: r, ctx: ctx, sampling: state}
	q.salt = kv.Salt{Own: r.Salt} // with adapters, activate says it
	q.Salt = adapterSalt(r.Salt, r.Adapters, 0)
	q.tokens = append(make([]int32, 0, len(r.Prompt)+min(r.MaxTokens, 256)), r.Prompt...)
	q.sched.Target = len(r.Prompt)
	q.sched.Limit = min(len(r.Prompt)+r.MaxTokens, room)
	q.sched.Priority = r.Priority
	q.whole = r.Hidden != nil && a.prog.HiddenOfAll() || r.Embeddings != nil || r.PromptLogprobs != nil
	if a.diffusion != nil {
		q.whole = true // what the cache has of a text depends on what comes after
		if answers(&r) {
			q.denoising = newDenoising(a.diffusion, r.Diffusion)
			if q.denoising.guided() {
				q.sched.Texts = 2
			}
			q.beginBlock(len(r.Prompt))
			q.sched.Target = len(q.tokens)
		}
	}
	if a.keys != nil && len(r.Adapters) == 0 && !q.whole {
		q.keys = a.keys(nil, q.salt, r.Prompt)
	}
	now := a.clock.now()
	q.ledger = account.Open(now)
	q.sched.Arrived = int64(now.Sub(a.clock.started))
	return q, nil
}

// checkEmbeddings refuses a prompt of embeddings that the model cannot begin with.
func checkEmbeddings(r *Request, width int) error {
	switch {
	case width == 0 || r.Hidden != nil:
		return invalid("the prompt is embeddings, and the model takes token ids only")
	case len(r.Embeddings) != len(r.Prompt)*width:
		return invalid("the prompt is %d tokens and %d numbers of embeddings; each token has %d", len(r.Prompt), len(r.Embeddings), width)
	}
	for i, x := range r.Embeddings {
		if x-x != 0 {
			return invalid("number %d of the embedding of token %d is %v; it must be finite", i%width, i/width, x)
		}
	}
	return nil
}

// refusal says why a request with a prompt of so many tokens is not taken now; nil when it is. a.inbox.mu is held.
func (a *admission) refusal(ctx context.Context, prompt int) error {
	if err := a.inbox.err(); err != nil {
		return err
	}
	deadline, hurried := ctx.Deadline()
	s := a.inbox.stats()
	full := s.Waiting >= a.maxWaiting
	if !hurried && !full {
		return nil
	}
	ttft := a.times.TTFT(a.load(&s))
	if full {
		return &FullError{Waiting: s.Waiting, Backlog: s.Backlog, Retry: max(time.Second, ttft.Wait(0)).Round(time.Second)}
	}
	if wait, left := ttft.Wait(prompt), time.Until(deadline); left <= 0 || wait > left {
		return &LateError{Wait: wait, Left: left}
	}
	return nil
}

// load is what the time to first token depends on.
func (a *admission) load(s *Stats) predict.Load {
	lim := a.prog.Limits()
	return predict.Load{
		Running: s.Running, Waiting: s.Waiting, Free: lim.Seqs - s.Running, Backlog: s.Backlog, CacheRows: s.CacheRows, Answer: s.Answer,
		StepTokens: a.stepTokens, PageSize: lim.PageSize, TargetITL: a.targetITL, ITLRatio: a.itlRatio,
	}
}
