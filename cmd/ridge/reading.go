package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
)

// reading shows on a terminal how much of a long prompt has been read, until the answer begins.
type reading struct {
	total int           // tokens
	done  *atomic.Int64 // of all steps
	first int64         // done at the beginning
	began time.Time
	stop  func()
}

const (
	readingPatience = time.Second // before anything is shown
	readingTime     = 200 * time.Millisecond
)

// stepTokens counts the tokens of all steps of a model from now on.
func stepTokens(m *ridge.Model) *atomic.Int64 {
	var n atomic.Int64
	m.OnStep(func(s ridge.Step) { n.Add(int64(s.Tokens)) })
	return &n
}

// showReading begins to show it on standard error, if that is a terminal. The steps of the model, whose tokens done counts, are taken for the prompt's: nothing else is at work.
func showReading(done *atomic.Int64, total int) *reading {
	r := &reading{total: total, done: done, first: done.Load(), began: time.Now(), stop: func() {}}
	if total == 0 || !term.IsTerminal(int(os.Stderr.Fd())) {
		return r
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		shown := false
		tick := time.NewTicker(readingTime)
		defer tick.Stop()
		for {
			select {
			case <-end:
				if shown {
					fmt.Fprint(os.Stderr, "\r\x1b[K")
				}
				return
			case now := <-tick.C:
				if now.Sub(r.began) > readingPatience {
					shown = true
					fmt.Fprint(os.Stderr, "\r\x1b[K", r.line(now.Sub(r.began)))
				}
			}
		}
	}()
	r.stop = sync.OnceFunc(func() { close(end); <-ended })
	return r
}

// line is where the reading stands after a time.
func (r *reading) line(after time.Duration) string {
	done := min(int(r.done.Load()-r.first), r.total)
	text := fmt.Sprintf("reading the prompt: %d of %d tokens", done, r.total)
	if done > 0 && done < r.total {
		left := time.Duration(float64(after) * float64(r.total-done) / float64(done))
		text += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	return text
}

// end takes the line away.
func (r *reading) end() { r.stop() }

// before is a writer that ends the line before anything is written.
func (r *reading) before(w io.Writer) io.Writer { return &afterReading{w, r} }

type afterReading struct {
	io.Writer
	reading *reading
}

// Write implements io.Writer.
func (a *afterReading) Write(p []byte) (int, error) {
	if len(p) > 0 {
		a.reading.end()
	}
	return a.Writer.Write(p)
}

// conversationTokens is how long the prompt of a conversation is, in tokens; 0 where it cannot be said.
func conversationTokens(m *ridge.Model, messages []chat.Message) int {
	p, err := m.Prompt(context.Background(), chat.Request{Messages: messages, AddGenerationPrompt: true})
	if err != nil {
		return 0
	}
	ids, err := m.EncodePrompt(p)
	if err != nil {
		return 0
	}
	return len(ids)
}
