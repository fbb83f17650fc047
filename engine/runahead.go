package engine

// Run ahead: steps overlap where the device samples tokens itself (backend.Sampler), which vLLM calls async scheduling and SGLang the
// overlap scheduler. While the device computes step n, the engine schedules step n+1 as if
// every request went on by one token, and launches it with placeholders for the tokens that step n is still to sample. Only then does
// it collect the tokens of step n. So scheduling, handing out and detokenising cost no time as long as they take less than a step.
//
//	next := l.launch(current)  // scheduled, reserved, in the device's queue
//	l.collect(current)         // waits for its tokens and hands them out
//	current = next
//
// A request that ends at step n wastes its row of step n+1; since the device does one step after the other, pages given back early
// are safe. Where step n brings a request more tokens than the one that was assumed, the token that step n+1 samples for it is known
// already and dropped.
//
// A request with a grammar runs ahead too, beside others: its row of step n+1 is computed from the placeholder, and only then, while the
// device computes, does the host take in the token of step n and find out which may follow. So the sampling of such a step is deferred
// until step n is collected; its launch is not. Nothing is launched ahead that consists of such rows alone: for tokens that a grammar
// forces, which come without sampling, it would take a step more.
//
// A request that is to have a draft waits for its tokens, apart or with the batch; see speculate_await.go.

// anticipate does, while the device is at work on a step, what does not need its results: it takes in what was submitted, and
// schedules the next step as if every request went on by one token. If after all one does not, or one comes, the next step is
// scheduled again. Siblings join with the pages that their request has now, so it takes no part in a step before they have.
func (l *loop) anticipate(f *InFlight) {
	l.admit()
	if l.finds { // what comes next depends on what is found
		l.queue.stale = true
		return
	}
	for i := range f.outputs {
		o := &f.outputs[i]
		r := o.request
		if o.parent != nil || r.ended || len(r.siblings) > 0 {
			continue
		}
		r.retarget(l.pool.sampler.runsAhead())
	}
	if len(l.isolated.requests) > 0 {
		return
	}
	l.queue.scheduleNext()
	l.queue.stale = false
	if l.pool.sampler.runsAhead() && l.speculation.await(f, l.meter.gap) {
		l.queue.scheduleNext()
	}
}

// retarget has the scheduler take the request to its last known token. Of an answer's last token nothing is computed, where steps run ahead.
func (r *request) retarget(runsAhead bool) {
	r.sched.Target = r.known()
	if runsAhead {
		r.sched.Target = min(r.sched.Target, r.sched.Limit-1)
	}
}

// canRunAhead reports whether the step that is scheduled can be launched before the one in flight is collected. It cannot when
// a request is to give back pages, when it waits for drafts, when hidden states must be read before they are overwritten, or logits that the host samples from, and while requests are retried alone.
// It gains nothing when all that it computes are answers whose tokens the host has to see before it can tell what may follow.
func (l *loop) canRunAhead(current *InFlight) bool {
	if !l.pool.sampler.runsAhead() || l.speculation.waits.batch || len(l.isolated.requests) > 0 || len(l.queue.schedule.Preempt) > 0 || l.hidden.due(current) || current.sampledOnHost() {
		return false
	}
	for _, c := range l.queue.schedule.Chunks {
		if r := l.queue.byID[c.Request.ID]; r.pending == 0 || !r.constrained() {
			return true
		}
	}
	return false
}

// constrained reports whether a grammar says which token may come next: it has to accept the token before.
func (r *request) constrained() bool { return r.Grammar != nil || r.Constrained }

// waitsForHost reports whether one of the step's outputs depends on a token in flight in a way that the device cannot know.
func (f *InFlight) waitsForHost() bool {
	for i := range f.outputs {
		if o := &f.outputs[i]; o.request.constrained() && o.position > len(o.request.tokens) {
			return true
		}
	}
	return false
}
