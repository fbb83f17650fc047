package main

import (
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/ridge-llm/ridge"
)

// stream writes an answer as it comes and returns how it ended. text, if not nil, collects it.
func stream(w io.Writer, pieces iter.Seq2[ridge.Piece, error], text *strings.Builder) (*ridge.Finish, error) {
	var finish *ridge.Finish
	for p, err := range pieces {
		if err != nil {
			return nil, err
		}
		if text != nil {
			text.WriteString(p.Text)
		}
		if _, err := io.WriteString(w, p.Text); err != nil {
			return nil, err
		}
		finish = p.Finish
	}
	return finish, nil
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
