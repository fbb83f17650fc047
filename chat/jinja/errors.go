package jinja

import (
	"errors"
	"fmt"
)

// Kind says what sort of thing went wrong, for callers that answer differently to each.
type Kind uint8

// The kinds of Error.
const (
	Runtime     Kind = iota // the template did something the language does not allow: a type error, an undefined name
	Syntax                  // the source is not a template
	Raised                  // the template called raise_exception: Message is the template author's sentence
	Security                // the sandbox forbids what the template tried
	Limit                   // a limit of Limits was reached
	Unsupported             // a part of Jinja2 that chat templates do not use and that is not here
)

// Error is everything that Parse and Render return.
type Error struct {
	Template string // the name given to Parse
	Line     int    // 1-based
	Kind     Kind
	Message  string
	cause    error // a context's error, when that is what stopped the rendering
}

// Error gives one sentence with the template's name and line.
func (e *Error) Error() string {
	return fmt.Sprintf("chat: %s:%d: %s", e.Template, e.Line, e.Message)
}

// Unwrap gives context.Canceled or context.DeadlineExceeded when the rendering was stopped from outside.
func (e *Error) Unwrap() error { return e.cause }

// fail makes a runtime error that does not know its line yet; the statement it happens in adds that.
func fail(format string, a ...any) error {
	return &Error{Kind: Runtime, Message: fmt.Sprintf(format, a...)}
}

func failKind(kind Kind, format string, a ...any) error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, a...)}
}

// at puts a line on an error that has none: the innermost statement or expression that knows one wins.
func at(line int, err error) error {
	var e *Error
	if errors.As(err, &e) && e.Line == 0 {
		e.Line = line
	}
	return err
}
