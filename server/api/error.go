package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/internal/background"
)

// Error is an error in OpenAI's terms.
type Error struct {
	Status  int
	Retry   int // seconds; 0: no advice
	Message string
	Kind    string
	Param   string // the field at fault
	Code    string
	Details map[string]any // that Anthropic's clients look for; nil: none
	late    bool           // the body did not arrive in time

	Tokens, Limit int // of code CodeContextLength: of the request, and of the context; 0: unknown
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// MarshalJSON gives the error OpenAI's shape, in which unknown fields are null.
func (e *Error) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Message string `json:"message"`
		Kind    string `json:"type"`
		Param   any    `json:"param"`
		Code    any    `json:"code"`
	}{e.Message, e.Kind, OrNull(e.Param), OrNull(e.Code)})
}

// CodeContextLength is the code of requests that do not fit into the context, by which clients know to shorten a conversation.
const CodeContextLength = "context_length_exceeded"

// InternalError is the error that clients get for a panic.
var InternalError = &Error{Status: http.StatusInternalServerError, Kind: "server_error", Code: "internal_error", Message: "internal error; see the server's log"}

// StatusClientGone is what the log and the metrics have of a request whose client has gone before it was answered, as nginx has it.
const StatusClientGone = 499

// CutOff ends the requests that are still under way when the server may wait for them no longer.
var CutOff = &Error{Status: http.StatusServiceUnavailable, Retry: 5, Kind: "server_error", Code: "cut_off", Message: "the server has stopped before the answer was complete; send the request again"}

// Invalid is an error of the client's in one field.
func Invalid(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Kind: "invalid_request_error", Param: param, Message: fmt.Sprintf(format, args...)}
}

// describe gives any error the API's shape.
func describe(err error) *Error {
	var (
		api   *Error
		known *ridge.Error
		wrong *ridge.LanguageError
		input *chat.InputError
	)
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &known):
		return describeKnown(known)
	case errors.As(err, &wrong):
		return Invalid("", "%s", Sentence(err))
	case errors.As(err, &input):
		return Invalid("", "%s", strings.TrimPrefix(input.Error(), "chat: "))
	case errors.Is(err, chat.ErrNoTemplate):
		return Invalid("messages", "%s", chat.ErrNoTemplate)
	case errors.Is(err, context.Canceled):
		return &Error{Status: StatusClientGone, Kind: "invalid_request_error", Code: "client_gone", Message: "the client has gone before it was answered"}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Status: http.StatusGatewayTimeout, Kind: "server_error", Code: "timeout", Message: "the time that x-request-timeout allows has passed"}
	case errors.Is(err, ridge.ErrDraining), errors.Is(err, ridge.ErrClosed):
		return &Error{Status: http.StatusServiceUnavailable, Retry: 5, Kind: "server_error", Code: "shutting_down", Message: err.Error()}
	}
	return &Error{Status: http.StatusInternalServerError, Kind: "server_error", Message: err.Error()}
}

// describeKnown gives what the library refused or ended a request with the API's shape.
func describeKnown(e *ridge.Error) *Error {
	switch e.Kind {
	case ridge.ErrQueueFull:
		return &Error{Status: http.StatusTooManyRequests, Retry: int(e.RetryAfter.Seconds()), Kind: "rate_limit_error", Code: "queue_full", Message: e.Error()}
	case ridge.ErrDeadline:
		return &Error{Status: http.StatusServiceUnavailable, Retry: int(e.RetryAfter.Seconds()) + 1, Kind: "server_error", Code: "deadline_unreachable", Message: e.Error()}
	case ridge.ErrContextLength:
		return &Error{Status: http.StatusBadRequest, Kind: "invalid_request_error", Code: CodeContextLength, Message: e.Reason, Tokens: e.Tokens, Limit: e.Limit}
	case ridge.ErrInvalidRequest:
		return InvalidSampling(e.Reason)
	case ridge.ErrNoAdapter:
		return &Error{Status: http.StatusNotFound, Kind: "invalid_request_error", Param: "model", Code: "model_not_found", Message: e.Error()}
	case ridge.ErrInternal:
		return InternalError
	case ridge.ErrModelFile:
		return &Error{Status: http.StatusServiceUnavailable, Kind: "server_error", Code: "model_file_changed", Message: e.Error()}
	}
	return &Error{Status: http.StatusInternalServerError, Kind: "server_error", Message: e.Error()}
}

// InvalidSampling is a bad value of the field that a sentence about sampling begins with, without the name of the package.
func InvalidSampling(sentence string) *Error {
	sentence = strings.TrimPrefix(sentence, "sample: ")
	field, _, _ := strings.Cut(sentence, " ")
	if named := []string{"stop", "temperature", "mirostat", "samplers"}; !strings.Contains(field, "_") && !slices.Contains(named, field) {
		field = "" // a word of the sentence
	}
	return Invalid(field, "%s", sentence)
}

// Responder answers requests, with errors in the shape of the API that their path belongs to.
type Responder struct {
	Log   *slog.Logger
	Shape func(path string, e *Error) any
	Lane  *background.Lane // of bodies that are not small
}

// refusedBodyTime is for the rest of a body to arrive that was refused before it was read; less than WriteTime.
const refusedBodyTime = 10 * time.Second

// Fail answers with an error, in the shape of the API that the path belongs to.
func (s *Responder) Fail(w http.ResponseWriter, r *http.Request, err error) {
	e := s.Error(w, r, err)
	e.advise(w)
	if !e.late {
		// net/http reads what is left of a body before it answers; a client that never sends it would be waited for without end.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedBodyTime))
	}
	WriteJSON(w, e.Status, s.Shape(r.URL.Path, e))
}

// Error is describe, and logs errors that are the server's own.
func (s *Responder) Error(w http.ResponseWriter, r *http.Request, err error) *Error {
	if cause := context.Cause(r.Context()); cause != nil && errors.Is(err, context.Canceled) {
		err = cause // the client has gone, or the server has cut the request off
	}
	e := describe(err)
	if e.Status < 500 || errors.Is(err, CutOff) {
		return e
	}
	args := []any{"id", w.Header().Get("X-Request-Id"), "path", r.URL.Path, "error", err}
	var known *ridge.Error
	if errors.As(err, &known) && len(known.Stack) > 0 {
		args = append(args, "stack", string(known.Stack))
	}
	s.Log.Error("request failed", args...)
	return e
}

// advise says when to try again, if that is known.
func (e *Error) advise(w http.ResponseWriter) {
	if e.Retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.Retry))
	}
}

// WriteJSON answers with v as JSON.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	// Writers without deadlines, as tests have, take their time.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(WriteTime))
	w.WriteHeader(status)
	// An error here means that the client has disconnected.
	_ = json.NewEncoder(w).Encode(v)
}

// Sentence is an error about a language without the name of the package.
func Sentence(err error) string { return strings.TrimPrefix(err.Error(), "grammar: ") }
