package server

import (
	"context"
	"iter"
	"time"

	"github.com/ridge-llm/ridge"
)

// job is one answer to make.
type job struct {
	index  int // of the choice
	prompt []int32
	params ridge.Params
	first  bool // of those with its prompt: the one whose prompt counts in the usage
}

// event is a piece of a choice.
type event struct {
	job   *job
	piece ridge.Piece
	err   error
}

// jobs are n answers to each prompt. Those to one prompt differ by their seed, and share what is cached of it.
func jobs(prompts [][]int32, n int, p ridge.Params) []job {
	var all []job
	for _, prompt := range prompts {
		for i := range n {
			j := job{index: len(all), prompt: prompt, params: p, first: i == 0}
			j.params.Sampling.Seed += uint64(i)
			all = append(all, j)
		}
	}
	return all
}

// begin submits the jobs, those to one prompt together: it is computed once.
func (s *Server) begin(ctx context.Context, all []job) (answers []iter.Seq2[ridge.Piece, error], err error) {
	for len(all) > 0 {
		params := []ridge.Params{all[0].params}
		for len(params) < len(all) && !all[len(params)].first {
			params = append(params, all[len(params)].params)
		}
		some, err := s.model.GenerateMany(ctx, all[0].prompt, params)
		if err != nil {
			return nil, err
		}
		answers, all = append(answers, some...), all[len(params):]
	}
	return answers, nil
}

// run makes all answers side by side and hands their pieces to each, in the order in which they come, until all have
// finished or one fails.
func (s *Server) run(ctx context.Context, all []job, each func(*job, ridge.Piece) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := make(chan event, 16)
	if inBackground(ctx) {
		for i := range all {
			all[i].params.Priority = backgroundPriority
		}
	}
	var answers []iter.Seq2[ridge.Piece, error]
	err := contained(func() (err error) {
		answers, err = s.begin(ctx, all)
		return err
	})
	if err != nil {
		return err
	}
	for i, answer := range answers {
		j := &all[i]
		send := func(p ridge.Piece, err error) bool {
			select {
			case events <- event{j, p, err}:
				return true
			case <-ctx.Done():
				return false
			}
		}
		go answer(send)
	}
	began := time.Now()
	last := make([]time.Time, len(all))
	for left := len(all); left > 0; {
		var e event
		select {
		case e = <-events:
		case <-ctx.Done():
			return ctx.Err()
		}
		if e.err != nil {
			return e.err
		}
		if e.piece.Token != nil {
			s.metrics.token(began, &last[e.job.index])
		}
		if e.piece.Finish != nil {
			left--
			s.metrics.finished(e.job, e.piece.Finish, time.Since(began))
			s.explained.put(ctx, s.model.Explain(e.piece.Finish))
		}
		if err := contained(func() error { return each(e.job, e.piece) }); err != nil {
			return err
		}
	}
	return nil
}
