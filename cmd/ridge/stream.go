package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/ridge-llm/ridge"
)

// stream writes an answer as it comes and returns how it ended. When ctx is done it returns at once: the engine, which may be at work on a
// long step, ends the request after it.
func stream(ctx context.Context, w io.Writer, pieces iter.Seq2[ridge.Piece, error]) (*ridge.Finish, error) {
	type event struct {
		piece ridge.Piece
		err   error
	}
	events := make(chan event)
	go func() {
		defer close(events)
		for p, err := range pieces {
			select {
			case events <- event{p, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	var finish *ridge.Finish
	for {
		var e event
		var more bool
		select {
		case e, more = <-events:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		switch {
		case !more:
			return finish, ctx.Err()
		case e.err != nil:
			return nil, e.err
		}
		if _, err := io.WriteString(w, e.piece.Text); err != nil {
			return nil, err
		}
		finish = e.piece.Finish
	}
}

// printSpeed prints how many tokens were read and written, and how fast.
func printSpeed(w io.Writer, f *ridge.Finish) {
	fmt.Fprintf(w, "prompt  %5d tokens, %d of them cached, in %v (%s tokens/s)\n",
		f.Prompt, f.Cached, f.Prefill.Round(time.Millisecond), rate(f.Prompt-f.Cached, f.Prefill))
	fmt.Fprintf(w, "answer  %5d tokens in %v (%s tokens/s), ended by %s\n",
		f.Output, f.Decode.Round(time.Millisecond), rate(f.Output-1, f.Decode), f.Reason)
}

// rate is n per second, or a dash when there is nothing to divide.
func rate(n int, d time.Duration) string {
	if n <= 0 || d <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(n)/d.Seconds())
}
