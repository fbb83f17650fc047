package engine

import (
	"slices"
	"time"

	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/engine/sample"
)

// sampler samples the tokens of steps. The device does it itself (deviceSampler) or, where it cannot, the host from the rows that it
// reads (hostSampler).
type sampler interface {
	// runsAhead reports whether a step may be launched before the results of the previous one have been waited for.
	runsAhead() bool
	// sample has the outputs of a step sampled. Run was last given that step. It returns when the work is queued.
	sample(f *InFlight) error
	// wait returns when what the outputs are made of is there: tokens, or the logits that choice samples from. It sets f.worked, from
	// f.launched and now where the device does not tell.
	wait(f *InFlight, now func() time.Time) error
	// choice is token i of an output that was waited for. Threads may call it at the same time, each with its own number.
	choice(f *InFlight, o *output, i, thread int) (sample.Choice, error)
	// likely is a token that the model has after row i of an output that was waited for, before choice is asked for that row: the likeliest, or the one that is
	// sampled in any case.
	likely(f *InFlight, o *output, i int) int32
	// promptChoice is the log-probability of the token that a row predicts, likewise.
	promptChoice(f *InFlight, p *promptRow, thread int) (sample.Choice, error)
	// work is how much choice computes for the outputs of a step, in logits.
	work(f *InFlight) int
	// drain waits for the steps in flight and drops their results.
	drain()
}

// newSampler is the sampler for a program, to be used by so many threads. onHost says that whole rows of logits are needed, whatever the device can do.
func newSampler(prog compile.Runner, threads int, onHost bool) sampler {
	if prog.CanSample() && !onHost {
		return &deviceSampler{prog: prog, ahead: prog.RunsAhead(), samplers: make([]sample.Sampler, threads)}
	}
	h := &hostSampler{prog: prog, samplers: make([]sample.Sampler, threads)}
	if !prog.HostReads() {
		h.buffer = make([]float32, prog.Limits().Logits*prog.Vocab())
	}
	return h
}

// deviceSampler has the device sample (backend.Sampler). Requests with samplers that it has not (llama.cpp's own) are sampled by the host, from their rows of the
// logits, which are copied; see request.onHost.
type deviceSampler struct {
	prog     compile.Runner
	ahead    bool // steps can have placeholders
	inFlight int  // steps whose results have not been waited for

	samplers []sample.Sampler // of each thread
	rows     []float32        // of requests that the host samples for
}

func (s *deviceSampler) runsAhead() bool { return s.ahead }

func (s *deviceSampler) work(f *InFlight) (n int) {
	for i := range f.outputs {
		n += len(f.outputs[i].logits)
	}
	return n
}

// sample describes the outputs' tokens to the device. A grammar says what each may be while the device computes the logits.
func (s *deviceSampler) sample(f *InFlight) error {
	for i := range f.outputs {
		o := &f.outputs[i]
		r := o.request
		if f.deferred && o.void() {
			continue
		}
		if o.sampled = 1; r.Forced != nil {
			continue
		}
		if r.onHost() {
			if o.sampled = o.rows; r.Grammar != nil {
				r.findMask(s.prog.Vocab())
			}
			continue
		}
		future := -1
		if ahead := o.position - len(r.tokens); ahead > 0 {
			future = r.future + ahead - 1
		}
		o.first, r.future = len(f.samples), len(f.samples)
		if r.Grammar != nil {
			r.findMask(s.prog.Vocab())
		}
		d := f.nextSample()
		r.sampling.Describe(d, r.mask, future)
		d.Row = o.row
		if o.rows > 1 {
			s.sampleDraft(f, o)
		}
	}
	f.deferred = false
	for i := range f.prompts {
		if p := &f.prompts[i]; !p.request.ended {
			p.first = len(f.samples)
			p.describe(f.nextSample())
		}
	}
	for len(f.results) < len(f.samples) {
		f.results = append(f.results, sampling.Result{})
	}
	if err := s.prog.Sample(f.samples); err != nil {
		return err
	}
	s.inFlight++
	return nil
}

// sampleDraft describes the tokens after those of the draft: each as it is sampled if what was drafted before it comes.
func (s *deviceSampler) sampleDraft(f *InFlight, o *output) {
	r := o.request
	if r.Grammar != nil {
		r.findDraftMasks(s.prog.Vocab())
	}
	var path []int32
	for i := range r.draft.Tokens {
		path = r.draft.Path(path[:0], i)
		var mask []uint32
		if r.Grammar != nil {
			mask = r.draftMasks[i]
		}
		d := f.nextSample()
		r.sampling.DescribeAfter(d, mask, path)
		d.Row = o.row + 1 + i
	}
	o.sampled = o.rows
}

// nextSample is one sample more, with the lists of an earlier one, to be used again.
func (f *InFlight) nextSample() *sampling.Sample {
	if n := len(f.samples); n < cap(f.samples) {
		f.samples = f.samples[:n+1]
	} else {
		f.samples = append(f.samples, sampling.Sample{})
	}
	return &f.samples[len(f.samples)-1]
}

func (s *deviceSampler) wait(f *InFlight, _ func() time.Time) (err error) {
	if f.worked, err = s.prog.SampleResults(f.results[:len(f.samples)]); err != nil {
		return err
	}
	s.inFlight--
	return s.read(f)
}

// read copies the logits of outputs that the host samples. Siblings have a copy each.
func (s *deviceSampler) read(f *InFlight) error {
	rows, vocab := 0, s.prog.Vocab()
	for i := range f.outputs {
		if o := &f.outputs[i]; o.request.onHost() && !o.void() {
			rows += o.rows
		}
	}
	if rows == 0 {
		return nil
	}
	s.rows = slices.Grow(s.rows[:0], rows*vocab)
	left := s.rows[:rows*vocab]
	for i := range f.outputs {
		o := &f.outputs[i]
		if !o.request.onHost() || o.void() {
			continue
		}
		n := o.rows * vocab
		o.logits, left = left[:n:n], left[n:]
		if err := s.prog.Logits(o.logits, o.row, o.rows); err != nil {
			return err
		}
	}
	return nil
}

func (s *deviceSampler) choice(f *InFlight, o *output, i, thread int) (sample.Choice, error) {
	if o.logits != nil {
		return o.chosen(&s.samplers[thread], s.prog.Vocab(), i)
	}
	return sample.FromResult(&f.results[o.first+i])
}

func (s *deviceSampler) likely(f *InFlight, o *output, i int) int32 {
	if o.logits != nil {
		return o.likeliest(s.prog.Vocab(), i)
	}
	return f.results[o.first+i].Token
}

func (s *deviceSampler) drain() {
	for ; s.inFlight > 0; s.inFlight-- {
		_, _ = s.prog.SampleResults(nil) // the step's error was returned where it happened
	}
}

// hostSampler reads the logits and samples from them.
type hostSampler struct {
	prog     compile.Runner
	samplers []sample.Sampler // of each thread
	buffer   []float32        // [Limits.Logits, vocab], if rows have to be copied from the device
	rows     []float32        // of the step that was waited for, [rows, vocab]
	copies   [][]float32      // of rows that several outputs sample from; sampling writes over them
}

func (s *hostSampler) runsAhead() bool { return false }

func (s *hostSampler) work(f *InFlight) int {
	return (len(f.outputs) + len(f.prompts)) * s.prog.Vocab()
}

// sample finds out, while a device that runs by itself computes the logits, which tokens grammars allow.
func (s *hostSampler) sample(f *InFlight) error {
	for i := range f.outputs {
		if r := f.outputs[i].request; r.Grammar != nil {
			r.findMask(s.prog.Vocab())
		}
	}
	return nil
}

func (s *hostSampler) wait(f *InFlight, now func() time.Time) error {
	if len(f.outputs)+len(f.prompts) > 0 {
		vocab := s.prog.Vocab()
		rows, err := s.prog.Rows(s.buffer, len(f.batch.LogitsIndices))
		if err != nil {
			return err
		}
		s.rows = rows
		copied := 0
		for i := range f.outputs {
			o := &f.outputs[i]
			o.sampled, o.logits = o.rows, rows[o.row*vocab:][:o.rows*vocab]
			if o.parent == nil || o.void() {
				continue
			}
			if copied == len(s.copies) {
				s.copies = append(s.copies, make([]float32, vocab))
			}
			copy(s.copies[copied], o.logits)
			o.logits = s.copies[copied]
			copied++
		}
	}
	f.worked = now().Sub(f.launched)
	return nil
}

func (s *hostSampler) choice(_ *InFlight, o *output, i, thread int) (sample.Choice, error) {
	return o.chosen(&s.samplers[thread], s.prog.Vocab(), i)
}

// chosen is token i of an output from its logits.
func (o *output) chosen(s *sample.Sampler, vocab, i int) (sample.Choice, error) {
	r := o.request
	if i > 0 && r.Grammar != nil { // the first row's mask was found while the device computed
		if r.findMask(vocab); r.maskErr != nil {
			return sample.Choice{}, r.maskErr
		}
	}
	return s.Sample(o.logits[i*vocab:(i+1)*vocab], r.sampling, r.mask)
}

func (s *hostSampler) likely(_ *InFlight, o *output, i int) int32 {
	return o.likeliest(s.prog.Vocab(), i)
}

// likeliest is the token with the highest of an output's logits i.
func (o *output) likeliest(vocab, i int) int32 {
	row, best := o.logits[i*vocab:(i+1)*vocab], 0
	for id, x := range row {
		if x > row[best] {
			best = id
		}
	}
	return int32(best)
}

// onHost reports whether the host samples for a request whatever the device can do.
func (r *request) onHost() bool { return r.Params.Chained() != "" }

// sampledOnHost reports whether the host samples one of a step's tokens, which a device that samples does not know then.
func (f *InFlight) sampledOnHost() bool {
	return slices.ContainsFunc(f.outputs, func(o output) bool { return o.request.onHost() })
}

func (s *hostSampler) drain() {}
