package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/engine"
)

// apiError is an error in OpenAI's terms.
type apiError struct {
	Status  int
	Retry   int // seconds; 0: no advice
	Message string
	Kind    string
	Param   string // the field at fault
	Code    string
}

func (e *apiError) Error() string { return e.Message }

// MarshalJSON gives the error OpenAI's shape, in which what is not known is null.
func (e *apiError) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Message string `json:"message"`
		Kind    string `json:"type"`
		Param   any    `json:"param"`
		Code    any    `json:"code"`
	}{e.Message, e.Kind, orNull(e.Param), orNull(e.Code)})
}

var internalError = &apiError{Status: http.StatusInternalServerError, Kind: "server_error", Code: "internal_error", Message: "the server made a mistake; its log says which"}

// bad is an error of the client's in one field.
func bad(param, format string, args ...any) *apiError {
	return &apiError{Status: http.StatusBadRequest, Kind: "invalid_request_error", Param: param, Message: fmt.Sprintf(format, args...)}
}

// describe gives any error the API's shape.
func describe(err error) *apiError {
	var (
		api     *apiError
		full    *engine.FullError
		late    *engine.LateError
		panics  *engine.PanicError
		invalid *engine.InvalidError
		wrong   *ridge.LanguageError
	)
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &full):
		return &apiError{Status: http.StatusTooManyRequests, Retry: int(full.Retry.Seconds()), Kind: "rate_limit_error", Code: "queue_full", Message: err.Error()}
	case errors.As(err, &late):
		return &apiError{Status: http.StatusServiceUnavailable, Retry: int(late.Wait.Seconds()) + 1, Kind: "server_error", Code: "deadline_unreachable", Message: err.Error()}
	case errors.As(err, &invalid):
		return about(invalid.Reason)
	case errors.As(err, &wrong):
		return bad("", "%s", sentence(err))
	case errors.Is(err, chat.ErrNoTemplate):
		return bad("messages", "%s", chat.ErrNoTemplate)
	case errors.As(err, &panics):
		return internalError
	case errors.Is(err, context.DeadlineExceeded):
		return &apiError{Status: http.StatusGatewayTimeout, Kind: "server_error", Code: "timeout", Message: "the time that x-request-timeout allows is over"}
	case errors.Is(err, engine.ErrDraining), errors.Is(err, ridge.ErrClosed), errors.Is(err, engine.ErrClosed):
		return &apiError{Status: http.StatusServiceUnavailable, Retry: 5, Kind: "server_error", Code: "shutting_down", Message: err.Error()}
	}
	return &apiError{Status: http.StatusInternalServerError, Kind: "server_error", Message: err.Error()}
}

// about is a bad value of the field that a sentence about sampling begins with, for somebody who knows no packages.
func about(sentence string) *apiError {
	sentence = strings.TrimPrefix(sentence, "sample: ")
	field, _, _ := strings.Cut(sentence, " ")
	if field != "stop" && !strings.Contains(field, "_") && field != "temperature" {
		field = "" // a word of the sentence
	}
	return bad(field, "%s", sentence)
}

// orNull is a text as JSON, null when there is none.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// fail answers with an error, in the shape of the API that the path belongs to.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := s.told(w, r, err)
	e.advise(w)
	writeJSON(w, e.Status, shape(r.URL.Path, e))
}

// told is describe, and notes in the log what is the server's own fault.
func (s *Server) told(w http.ResponseWriter, r *http.Request, err error) *apiError {
	e := describe(err)
	if e.Status < 500 {
		return e
	}
	args := []any{"id", w.Header().Get("X-Request-Id"), "path", r.URL.Path, "error", err}
	var p *engine.PanicError
	if errors.As(err, &p) {
		args = append(args, "stack", string(p.Stack))
	}
	s.log.Error("request failed", args...)
	return e
}

// shape is an error as clients of a path's API expect it.
func shape(path string, e *apiError) any {
	switch {
	case strings.HasPrefix(path, "/v1/messages"):
		return anthropicError(e)
	case strings.HasPrefix(path, "/api/"):
		return map[string]string{"error": e.Message}
	}
	return map[string]any{"error": e}
}

// advise says when to try again, if that is known.
func (e *apiError) advise(w http.ResponseWriter) {
	if e.Retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.Retry))
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	// Writers without deadlines, as tests have, take their time.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
	w.WriteHeader(status)
	// An error here is the client's having gone: there is nobody to tell.
	_ = json.NewEncoder(w).Encode(v)
}
