package ridge

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ridge-llm/ridge/engine"
	"github.com/ridge-llm/ridge/engine/sched"
)

// What can be wrong with a request or a model, to be told apart with errors.Is. All but ErrClosed and ErrDraining come in an *Error, which says
// more.
var (
	// ErrClosed is what a request gets that Close ended, or that came after it.
	ErrClosed = errors.New("ridge: the model was closed")
	// ErrDraining refuses a request because Drain was called.
	ErrDraining = errors.New("ridge: the model is shutting down; it finishes what it has and takes no new requests")
	// ErrInvalidRequest refuses a request that can never run, here or later.
	ErrInvalidRequest = errors.New("ridge: the request can never run")
	// ErrContextLength is an ErrInvalidRequest whose prompt is longer than the context.
	ErrContextLength = errors.New("ridge: the prompt does not fit into the context")
	// ErrQueueFull refuses a request because as many wait as may (Options.MaxWaiting). Error.RetryAfter says when to come again.
	ErrQueueFull = errors.New("ridge: the queue is full")
	// ErrDeadline refuses a request whose context would be done before its first token. Error.RetryAfter is how long that token would take.
	ErrDeadline = errors.New("ridge: the deadline cannot be met")
	// ErrInternal ends a request because of a mistake in this program. Error.Stack says where.
	ErrInternal = errors.New("ridge: a mistake in the program ended the request")
	// ErrModelFile ends and refuses requests because a file of the model was changed while it was in use. The model has to be loaded again.
	ErrModelFile = errors.New("ridge: a file of the model was changed while it was in use")
	// ErrMemory is why a model was not loaded: a device has not the memory for it. Error.Alternatives says what would fit.
	ErrMemory = errors.New("ridge: the model does not fit into the memory of the device")
	// ErrNoModel is why Pull fetched nothing: no model has that name, or the repository has no such file. ErrAccess: one has, which takes a token (HF_TOKEN) or its
	// owner's consent.
	ErrNoModel = errors.New("ridge: there is no model of that name")
	ErrAccess  = errors.New("ridge: the model may not be downloaded without a token or its owner's consent")
	// ErrStep ends a request with which a step of the engine failed, twice: on a GPU often a fault of the device.
	ErrStep = errors.New("ridge: computing a step failed")
)

// Error is why a request was refused or ended.
type Error struct {
	Kind       error         // one of the Err… above
	Reason     string        // a sentence, with the numbers and what to do
	RetryAfter time.Duration // of ErrQueueFull and ErrDeadline: as steps are priced, at least a second; 0: unknown
	Stack      []byte        // of ErrInternal
	Tokens     int           // of ErrContextLength: that the prompt has, or at least has, or that the request may come to; 0: unknown
	Limit      int           // and that are possible
	// Alternatives of ErrMemory are what would have room on this machine, each by itself; none where nothing was found.
	Alternatives []Alternative
	cause        error
}

func (e *Error) Error() string { return "ridge: " + e.Reason }

// Unwrap gives errors.Is the kind, and the kind that it is a case of.
func (e *Error) Unwrap() []error {
	all := []error{e.Kind}
	if e.Kind == ErrContextLength {
		all = append(all, ErrInvalidRequest)
	}
	if e.cause != nil {
		all = append(all, e.cause)
	}
	return all
}

// noMemory is an *Error of kind ErrMemory.
func noMemory(format string, args ...any) error {
	return &Error{Kind: ErrMemory, Reason: fmt.Sprintf(format, args...)}
}

// invalidRequest is an *Error of kind ErrInvalidRequest.
func invalidRequest(reason string) error { return &Error{Kind: ErrInvalidRequest, Reason: reason} }

// public is an error of the engine's as callers of this package know it; other errors stay as they are.
func public(err error) error {
	var (
		invalid *engine.InvalidError
		long    *sched.TooLongError
		full    *engine.FullError
		late    *engine.LateError
		panics  *engine.PanicError
		step    *engine.StepError
	)
	if err == nil {
		return nil
	}
	reason := strings.TrimPrefix(err.Error(), "engine: ")
	switch {
	case errors.Is(err, engine.ErrClosed):
		return ErrClosed
	case errors.Is(err, engine.ErrDraining):
		return ErrDraining
	case errors.As(err, &invalid):
		kind := ErrInvalidRequest
		if invalid.ContextLength {
			kind = ErrContextLength
		}
		return &Error{Kind: kind, Reason: reason, Tokens: invalid.Tokens, Limit: invalid.Limit, cause: err}
	case errors.As(err, &long):
		return &Error{Kind: ErrContextLength, Reason: strings.TrimPrefix(long.Error(), "sched: "), Tokens: long.Tokens, Limit: long.Limit, cause: err}
	case errors.As(err, &full):
		return &Error{Kind: ErrQueueFull, Reason: reason, RetryAfter: full.Retry, cause: err}
	case errors.As(err, &late):
		return &Error{Kind: ErrDeadline, Reason: reason, RetryAfter: late.Wait, cause: err}
	case errors.As(err, &panics):
		return &Error{Kind: ErrInternal, Reason: reason, Stack: panics.Stack, cause: err}
	case errors.As(err, &step):
		return &Error{Kind: ErrStep, Reason: reason, cause: err}
	}
	return err
}
