package evaluate

import (
	"context"
	"sync"

	"github.com/ridge-llm/ridge/internal/evaluate/task"
)

// AnswerResult is how often the answers that a model writes end with the right number.
type AnswerResult struct {
	Task      string  `json:"task"`
	Problems  int     `json:"problems"`
	Strict    float64 `json:"strict_match"` // share of problems with the right number behind "#### "
	StrictErr float64 `json:"strict_match_stderr"`
	Last      float64 `json:"flexible_extract"` // share whose answer's last number is right
	LastErr   float64 `json:"flexible_extract_stderr"`
}

// Generator continues a prompt with what the model thinks likeliest, up to where an answer ends.
type Generator func(ctx context.Context, prompt string) (string, error)

// Answers has the problems answered, so many at a time, after examples. log has the answers of an earlier run, or is nil. progress is called after
// each answer, by one goroutine at a time.
func Answers(ctx context.Context, generate Generator, problems, examples []task.Problem, parallel int, log *Log, progress func(done int, strict float64)) (*AnswerResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu                  sync.Mutex
		strict, last, count int
		workers             sync.WaitGroup
	)
	take := func(i int, answer string, save bool) error {
		mu.Lock()
		defer mu.Unlock()
		if save {
			if err := log.put(i, answer); err != nil {
				return err
			}
		}
		right := problems[i].Right()
		if task.Marked(answer) == right {
			strict++
		}
		if task.Last(answer) == right {
			last++
		}
		count++
		progress(count, float64(strict)/float64(count))
		return nil
	}
	next := make(chan int)
	for range parallel {
		workers.Go(func() {
			for i := range next {
				answer, err := generate(ctx, problems[i].Prompt(examples))
				if err == nil {
					err = take(i, answer, true)
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range problems {
		var answer string
		found, err := log.found(i, &answer)
		if err == nil && found {
			err = take(i, answer, false)
		}
		if err != nil {
			cancel(err)
		}
		if ctx.Err() != nil {
			break
		}
		if !found {
			select {
			case next <- i:
			case <-ctx.Done():
			}
		}
	}
	close(next)
	workers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r := &AnswerResult{Task: "gsm8k", Problems: len(problems)}
	r.Strict, r.StrictErr = share(strict, len(problems))
	r.Last, r.LastErr = share(last, len(problems))
	return r, nil
}
