package bench

import (
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/graph"
)

// step runs one step on random tokens. What sampling would look at comes to the host: the logits or, of a device that samples,
// the likeliest tokens, and those of the step before while the device is at this one, as in the engine.
func (b *Bench) step(s *graph.Step) error {
	b.lay(s)
	if err := b.prog.Run(&b.batch); err != nil {
		return err
	}
	if !b.prog.CanSample() {
		return b.prog.Logits(b.logits, 0, s.Logits)
	}
	b.samples = b.samples[:0]
	for row := range s.Logits {
		b.samples = append(b.samples, sampling.Sample{Row: row, TopP: 1, TypicalP: 1, Future: -1})
	}
	if err := b.prog.Sample(b.samples); err != nil {
		return err
	}
	under := b.waits
	b.waits = true
	if !under {
		return nil
	}
	_, err := b.prog.SampleResults(nil)
	return err
}

// finish waits for the last step.
func (b *Bench) finish() error {
	if !b.waits {
		return nil
	}
	b.waits = false
	_, err := b.prog.SampleResults(nil)
	return err
}

// lay writes the batch of a step.
func (b *Bench) lay(s *graph.Step) { Lay(&b.batch, b.prog.Limits, s, b.vocab, b.rnd) }

// fill sees to it that the first sequences have real keys and values of depth tokens: sequence 0 computes them, and the
// others get a copy of its pages, which are their own to read.
func (b *Bench) fill(depth, sequences int) error {
	if depth == 0 {
		return nil
	}
	for b.filled < depth {
		n := min(b.chunk, depth-b.filled)
		if err := b.step(&graph.Step{Seqs: []graph.Seq{{New: n, Past: b.filled}}, Logits: 1}); err != nil {
			return err
		}
		b.filled += n
	}
	if err := b.finish(); err != nil {
		return err
	}
	pages := (depth + pageSize - 1) / pageSize
	for s := 1; s < sequences; s++ {
		for p := range pages {
			if err := b.prog.CopyPage(int32(p), int32(s*b.prog.Limits.SeqPages+p)); err != nil {
				return err
			}
		}
	}
	return nil
}
