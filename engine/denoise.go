package engine

import (
	"math"
	"slices"

	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/diffusion"
	"github.com/ridge-llm/ridge/engine/sample"
)

// A masked diffusion model does not write from left to right: it fills masked tokens in, looking both ways. A request to one has the block that is being
// found behind its known tokens, and every step computes what of both is not in the cache, all of it in one step, with logits for the block. What is found
// there stays; when all of the block is, its tokens go to the request's owner in order, and the next block begins.
//
//	step 1:  prompt          │ ▒ ▒ ▒ ▒    computed: all; the prompt stays in the cache
//	step 2:  (cache)         │ a ▒ ▒ d    computed: the block
//	step 3:  (cache) a b c d │ ▒ ▒ ▒ ▒    computed: the block before, now that it is known, and the next one
//
// Rows of a step see one another, the cache sees nothing that comes later: what is in it stays as it was computed. With diffusion.Options.Exact nothing
// is taken from the cache, and the masked tokens of all later blocks are there as well.
//
// A guided step (diffusion.Options.CFGScale) is two passes, one behind the other: the text as it is, and the text with its prompt masked. Each has a sequence of its own
// in the cache, of which one is at hand (request.seq); the first's logits are kept until the second's are there.

// Diffusion is what the engine has to know of a masked diffusion model.
type Diffusion struct {
	Mask  int32 // the token that stands for one that is to be found
	Shift bool  // a row proposes the token after its own
	Block int   // tokens of a block where a request does not say; 0: diffusion.DefaultBlock
}

// denoising is where a request to such a model stands.
type denoising struct {
	model   *Diffusion
	options diffusion.Options
	block   diffusion.Block
	start   int  // position of the block's first token
	end     int  // position behind its last one
	keep    int  // tokens that may stay in the cache after the step
	masked  bool // the pass at hand is the second of a guided step: all of the prompt is masked
	lo      int  // position of the step's first row of logits
	steps   int  // so far

	found      []sample.Choice // [end - start] those of the block that are found
	proposed   []sample.Choice // likewise, by the step
	candidates []diffusion.Candidate
	raw        []float32 // a row as the model gave it
	guide      []float32 // rows of logits of a guided step's first pass
	guideLo    int       // position of the first of them
}

// newDenoising is that of a request without any.
func newDenoising(m *Diffusion, o diffusion.Options) *denoising {
	d := &denoising{model: m, options: o}
	if d.options.Block == 0 {
		d.options.Block = m.BlockLength()
	}
	return d
}

// BlockLength is how many tokens a block has where a request does not say.
func (m *Diffusion) BlockLength() int {
	if m.Block > 0 {
		return m.Block
	}
	return diffusion.DefaultBlock
}

// guided reports whether each step is two passes, the second with all of the prompt masked.
func (d *denoising) guided() bool { return d.options.CFGScale > 0 }

// unseen reports whether the pass at hand does not see the prompt; d may be nil.
func (d *denoising) unseen() bool { return d != nil && d.masked }

// stepsTaken is how many steps a request has had; d may be nil.
func (d *denoising) stepsTaken() int {
	if d == nil {
		return 0
	}
	return d.steps
}

// checkDiffusion refuses what a model that fills masked tokens in, or one that does not, cannot be asked for.
func (a *admission) checkDiffusion(r *Request) error {
	m := a.diffusion
	if m == nil {
		if r.Diffusion != (diffusion.Options{}) {
			return invalid("steps, block length, threshold, algorithm, alg_temp or cfg_scale of diffusion are given, and the model writes from left to right; leave them out")
		}
		return nil
	}
	if err := r.Diffusion.Check(); err != nil {
		return &InvalidError{Reason: err.Error()}
	}
	switch rows, block := a.prog.Limits().Logits, max(r.Diffusion.Block, 1); {
	case r.Grammar != nil:
		return invalid("a grammar, a schema or a forced call of a tool is asked for, and the model finds tokens in any order (diffusion), which no grammar can follow; ask for plain text")
	case r.PromptLogprobs != nil:
		return invalid("log-probabilities of the prompt are asked for, and the model looks both ways (diffusion): it predicts no token from those before it alone")
	case r.Forced != nil:
		return invalid("answers of a model that finds tokens in any order (diffusion) cannot be replayed")
	case block >= rows:
		return invalid("the diffusion block length is %d and a step has logits for %d rows; take less", block, rows)
	}
	return nil
}

// checkDiffusion refuses a program that such a model cannot run on.
func (o *Options) checkDiffusion(prog compile.Runner) error {
	switch {
	case o.Diffusion == nil:
		return nil
	case o.Speculation.Drafter != nil:
		return invalid("drafts are to be verified (speculation), and the model fills masked tokens in (diffusion): its steps bring several tokens without; leave the drafter out")
	case o.Recorder != nil:
		return invalid("requests are to be recorded, and answers of a model that fills masked tokens in (diffusion) cannot be replayed; leave the recording out")
	case o.Diffusion.BlockLength() >= prog.Limits().Logits:
		return invalid("blocks of %d masked tokens need logits of as many rows and one more; the program was compiled for %d", o.Diffusion.BlockLength(), prog.Limits().Logits)
	}
	return nil
}

// beginBlock puts the next block behind the request's known tokens: masked tokens as far as the answer may reach or, with Exact, all that it may have.
func (r *request) beginBlock(at int) {
	d := r.denoising
	d.start, d.end = at, min(at+d.options.Block, r.sched.Limit)
	n, end := d.end-d.start, d.end
	if d.options.Exact {
		end = r.sched.Limit
	}
	r.tokens = r.tokens[:at]
	for len(r.tokens) < end {
		r.tokens = append(r.tokens, d.model.Mask)
	}
	d.block.Begin(&d.options, n, r.sched.Limit-len(r.Prompt))
	d.found = append(d.found[:0], make([]sample.Choice, n)...)
}

// logitsRows is which rows of a step that computes the request's tokens from a position on have logits: positions lo to hi.
func (d *denoising) logitsRows(from int) (lo, hi int) {
	if !d.model.Shift {
		return d.start, d.end
	}
	return max(from, d.start-1), d.end - 1 // the last row proposes a token behind the block
}

// fitBlockRows reports whether a step has the rows of logits that the request's block takes, of those that are left. If not, it waits for another step.
func (r *request) fitBlockRows(from int, left *int) bool {
	if r.denoising == nil {
		return true
	}
	lo, hi := r.denoising.logitsRows(from)
	if hi-lo > *left {
		return false
	}
	*left -= hi - lo
	return true
}

// denoise takes what the model proposes for the masked tokens of the request's block, and fixes those that are due.
func (o *output) denoise(s sampler, f *InFlight, thread int) {
	r := o.request
	d := r.denoising
	n, shift := d.end-d.start, 0
	if d.model.Shift {
		shift = 1
	}
	d.keep = d.start // what follows was computed beside masked tokens
	if d.options.Exact {
		d.keep = 0
	}
	if d.guided() && !d.masked {
		d.guide, d.guideLo = append(d.guide[:0], o.logits...), d.lo
		return
	}
	d.candidates, d.proposed = d.candidates[:0], append(d.proposed[:0], make([]sample.Choice, n)...)
	for at := range n {
		row := d.start + at - shift - d.lo
		if row < 0 || !d.block.Masked(at) || !d.guideRow(o, row) {
			continue
		}
		sure, err := o.proposeAt(s, f, row, at, thread)
		if err != nil {
			o.err = err
			return
		}
		forced := shift > 0 && at == 0 && !d.options.Exact // the row before the block is computed this once
		d.candidates = append(d.candidates, diffusion.Candidate{At: at, Sure: sure, Forced: forced})
	}
	random := func(step, at int) float64 { return r.sampling.Order(step, d.start+at) }
	for _, c := range d.block.Fix(&d.options, d.candidates, random) {
		d.found[c.At] = d.proposed[c.At]
		d.found[c.At].Top = slices.Clone(d.found[c.At].Top) // the sampler's own until now
		r.tokens[d.start+c.At] = d.found[c.At].Token
	}
	d.steps++
	if d.block.Done() {
		o.finishBlock()
	}
}

// guideRow makes a row of logits that of a guided step, where it is one. It reports whether both passes have it.
func (d *denoising) guideRow(o *output, row int) bool {
	if !d.guided() {
		return true
	}
	vocab := len(o.logits) / o.rows
	first := row + d.lo - d.guideLo
	if first < 0 || (first+1)*vocab > len(d.guide) {
		return false
	}
	without, scale := o.logits[row*vocab:][:vocab], float32(d.options.CFGScale+1)
	for i, with := range d.guide[first*vocab:][:vocab] {
		without[i] += scale * (with - without[i])
	}
	return true
}

// proposeAt samples the token at a place of the block from a row of the output's logits. The mask is never chosen.
func (o *output) proposeAt(s sampler, f *InFlight, row, at, thread int) (sure float64, err error) {
	r := o.request
	d := r.denoising
	vocab := len(o.logits) / o.rows
	logits := o.logits[row*vocab:][:vocab]
	d.raw = append(d.raw[:0], logits...)
	if int(d.model.Mask) < vocab {
		logits[d.model.Mask] = float32(math.Inf(-1))
	}
	r.sampling.Again(d.block.Steps()*diffusion.MaxBlock+at, at)
	c, err := s.choice(f, o, row, thread)
	if err != nil {
		return 0, err
	}
	d.proposed[at] = c
	return d.options.Sure(d.raw, c.Token), nil
}

// finishBlock hands the block's tokens to the owner, and begins the next one if the answer goes on.
func (o *output) finishBlock() {
	r := o.request
	d := r.denoising
	for i, c := range d.found {
		r.sampling.Observe(c.Token)
		if slices.Contains(r.Ends, c.Token) {
			r.end, o.reason = &c, sample.ReasonStop
			return
		}
		r.output++
		o.emitted++
		switch stop := r.Emit(c); {
		case stop:
			o.reason = sample.ReasonStop
			return
		case d.start+i+1 == r.sched.Limit:
			o.reason = sample.ReasonLength
			return
		}
	}
	r.beginBlock(d.end)
}

// settleBlock takes back what the cache has of tokens that were masked when they were computed.
func (l *loop) settleBlock(r *request) {
	l.queue.stale = true
	l.pages.truncate(r, r.denoising.keep)
	if d := r.denoising; d.guided() {
		d.masked = !d.masked
		r.seq, r.other = r.other, r.seq
		r.sched.Computed = r.seq.Len()
	}
}
