package throughput

import (
	"context"

	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/graph"
)

// step runs one step on random tokens. What sampling would look at comes to the host: the logits or, of a device that samples,
// the likeliest tokens, and those of the step before while the device is at this one, as in the engine.
func (r *Runner) step(ctx context.Context, s *graph.Step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.fillBatch(s)
	if err := r.prog.Run(&r.batch); err != nil {
		return err
	}
	if !r.prog.CanSample() {
		return r.prog.Logits(r.logits, 0, s.Logits)
	}
	r.samples = r.samples[:0]
	for row := range s.Logits {
		r.samples = append(r.samples, sampling.Sample{Row: row, TopP: 1, TypicalP: 1, Future: -1})
	}
	if err := r.prog.Sample(r.samples); err != nil {
		return err
	}
	pending := r.waits
	r.waits = r.prog.RunsAhead()
	if r.waits && !pending {
		return nil
	}
	_, err := r.prog.SampleResults(nil)
	return err
}

// finish waits for the last step.
func (r *Runner) finish() error {
	if !r.waits {
		return nil
	}
	r.waits = false
	_, err := r.prog.SampleResults(nil)
	return err
}

// fillBatch writes the batch of a step.
func (r *Runner) fillBatch(s *graph.Step) { FillBatch(&r.batch, r.prog.Limits(), s, r.vocab, r.rnd) }

// fillCache sees to it that the first sequences have real keys and values of depth tokens: sequence 0, or where devices have sequences of their own the first of each, computes them, and the
// others get a copy of its pages, which are their own to read.
func (r *Runner) fillCache(ctx context.Context, depth, sequences int) error {
	if depth == 0 {
		return nil
	}
	lim := r.prog.Limits()
	ranks := min(max(lim.Ranks, 1), lim.Seqs)
	for r.filled < depth {
		n := min(max(r.chunk/ranks, 1), depth-r.filled)
		step := &graph.Step{Logits: 1}
		for range ranks {
			step.Seqs = append(step.Seqs, graph.Seq{New: n, Past: r.filled})
		}
		if err := r.step(ctx, step); err != nil {
			return err
		}
		r.filled += n
	}
	if err := r.finish(); err != nil {
		return err
	}
	pages := (depth + lim.PageSize - 1) / lim.PageSize
	for s := ranks; s < sequences; s++ {
		from, to := placeOf(lim, s%ranks), placeOf(lim, s)
		for group, of := range r.prog.Groups() {
			if of.Recurrent {
				if err := r.prog.CopyPage(group, lim.StateOf(group, from), lim.StateOf(group, to)); err != nil {
					return err
				}
				continue
			}
			for p := range pages {
				if err := r.prog.CopyPage(group, int32(from*lim.SeqPages+p), int32(to*lim.SeqPages+p)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
