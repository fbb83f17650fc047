package engine

import (
	"errors"
	"fmt"
	"time"
)

// ErrClosed is what a request gets that was submitted to, or unfinished in, an engine that is closing.
var ErrClosed = errors.New("engine: closed")

// ErrDraining refuses a request because the engine ends what it has and takes nothing new.
var ErrDraining = errors.New("engine: the engine is shutting down; it finishes what it has and takes no new requests")

// InvalidError refuses a request that can never run, here or later.
type InvalidError struct {
	Reason        string
	ContextLength bool // the prompt is longer than the context
	Tokens, Limit int  // of the prompt, and of the context, then
}

func (e *InvalidError) Error() string { return "engine: " + e.Reason }

func invalid(format string, args ...any) error {
	return &InvalidError{Reason: fmt.Sprintf(format, args...)}
}

// FullError refuses a request because too many wait.
type FullError struct {
	Waiting int           // requests
	Backlog int           // tokens to compute before they have all begun to answer
	Retry   time.Duration // how long that takes, as steps are priced; at least a second
}

func (e *FullError) Error() string {
	return fmt.Sprintf("engine: %d requests are waiting, as many as may; try again in %v", e.Waiting, e.Retry)
}

// LateError refuses a request whose deadline would pass before its first token.
type LateError struct {
	Wait time.Duration // until its first token at least, as steps are priced
	Left time.Duration // until its deadline
}

func (e *LateError) Error() string {
	return fmt.Sprintf("engine: the first token would come in about %v and the deadline is in %v; allow more time or try again later",
		e.Wait.Round(time.Millisecond), e.Left.Round(time.Millisecond))
}

// PanicError ends a request in whose callbacks or sampling something panicked. It is a mistake in the program; the
// other requests go on.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("engine: a panic ended the request: %v", e.Value)
}

// tooLong refuses a prompt that is longer than the context. format takes both numbers of tokens.
func tooLong(format string, tokens, limit int) error {
	return &InvalidError{Reason: fmt.Sprintf(format, tokens, limit), ContextLength: true, Tokens: tokens, Limit: limit}
}
