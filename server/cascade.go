package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/background"
	"github.com/ridge-llm/ridge/internal/cascade"
	"github.com/ridge-llm/ridge/server/anthropic"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/ollama"
	"github.com/ridge-llm/ridge/server/openai"
	"github.com/ridge-llm/ridge/server/serving"
)

// Stage is a model of a cascade that is asked before the server's own.
type Stage struct {
	Model     *ridge.Model // the caller's to close after the server
	Name      string       // "" is the model's own
	Threshold float64      // of the confidence, 0 to 1, from which on its answer is the client's
	Samples   int          // answers beside it whose agreement is the confidence; 0: it is the mean probability of its tokens
}

// stage is a Stage as it is served.
type stage struct {
	Stage
	service *serving.Service
	routes  map[string]http.HandlerFunc
}

// answering is the endpoints that a cascade is for.
var answering = []string{"POST /v1/chat/completions", "POST /v1/completions", "POST /v1/responses", "POST /v1/messages", "POST /api/chat", "POST /api/generate"}

// addStages makes the endpoints of the models that are asked first.
func (s *Server) addStages(stages []Stage, lane *background.Lane) {
	for _, one := range stages {
		if one.Name == "" {
			one.Name = one.Model.Name()
		}
		if one.Name == s.Name {
			one.Name += "-small"
		}
		x := stage{Stage: one, service: serving.New(one.Model, one.Name, lane), routes: map[string]http.HandlerFunc{}}
		x.service.Called = func(name string) bool { return name == s.Name }
		for _, routes := range []map[string]http.HandlerFunc{openai.New(x.service, s.Responder, s.kept).Routes(), anthropic.New(x.service, s.Responder).Routes(), ollama.New(x.service, s.Responder).Routes()} {
			for _, pattern := range answering {
				if h := routes[pattern]; h != nil {
					x.routes[pattern] = h
				}
			}
		}
		s.stages = append(s.stages, x)
	}
}

// cascaded answers with the first model that is sure enough of its answer, or else with the last. Who answered is in the headers X-Ridge-Model and X-Ridge-Cascade, and where
// an API's answers name their model, there.
func (s *Server) cascaded(pattern string, last http.HandlerFunc) http.HandlerFunc {
	if len(s.stages) == 0 {
		return last
	}
	return func(w http.ResponseWriter, r *http.Request) {
		body, began := &replayed{from: r.Body}, time.Now()
		var tried []string
		for i := range s.stages {
			x := &s.stages[i]
			c := &cascade.Confidence{Samples: x.Samples}
			held := &heldAnswer{ResponseWriter: w, header: w.Header().Clone()}
			again := api.Again(r, body.again(), time.Since(began))
			x.routes[pattern](held, again.WithContext(serving.WithConfidence(r.Context(), c)))
			if r.Context().Err() != nil {
				held.drop()
				return
			}
			sure := c.Value()
			if held.ok() && sure >= x.Threshold {
				tried = append(tried, fmt.Sprintf("%s %.3f >= %g", x.Name, sure, x.Threshold))
				held.release(x.Name, tried)
				return
			}
			held.drop()
			switch {
			case held.ok() && sure < 0:
				tried = append(tried, x.Name+" failed")
			case held.ok():
				tried = append(tried, fmt.Sprintf("%s %.3f < %g", x.Name, sure, x.Threshold))
			default:
				tried = append(tried, fmt.Sprintf("%s refused with status %d", x.Name, held.status))
			}
		}
		w.Header().Set("X-Ridge-Model", s.Name)
		w.Header().Set("X-Ridge-Cascade", strings.Join(append(tried, s.Name), ", "))
		last(w, api.Again(r, body.again(), time.Since(began)))
	}
}

// Drain refuses new requests and waits until those under way have ended, or ctx is done.
func (s *Server) Drain(ctx context.Context) (err error) {
	for i := range s.stages {
		err = errors.Join(err, s.stages[i].Model.Drain(ctx))
	}
	return errors.Join(err, s.Service.Drain(ctx))
}

// replayed is a request's body that several models read.
type replayed struct {
	from io.ReadCloser
	read bytes.Buffer
}

// again is the body from its beginning.
func (b *replayed) again() io.ReadCloser {
	known := bytes.NewReader(bytes.Clone(b.read.Bytes()))
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(known, io.TeeReader(b.from, &b.read)), b.from}
}

// heldAnswer is an answer that is held back until it is known whether it is the client's.
type heldAnswer struct {
	http.ResponseWriter // the client's
	header              http.Header
	status              int
	body                bytes.Buffer
	dropped             []func() // called if the answer is not the client's
}

// OnDrop has f called if the answer is not the client's.
func (h *heldAnswer) OnDrop(f func()) { h.dropped = append(h.dropped, f) }

// drop forgets the answer.
func (h *heldAnswer) drop() {
	for _, f := range h.dropped {
		f()
	}
}

// Header implements http.ResponseWriter.
func (h *heldAnswer) Header() http.Header { return h.header }

// WriteHeader implements http.ResponseWriter.
func (h *heldAnswer) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}

// Write implements http.ResponseWriter.
func (h *heldAnswer) Write(b []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return h.body.Write(b)
}

// FlushError and SetWriteDeadline are for http.ResponseController: nothing goes to the client yet.
func (h *heldAnswer) FlushError() error { return nil }

// SetWriteDeadline is beside FlushError.
func (h *heldAnswer) SetWriteDeadline(time.Time) error { return nil }

// Unwrap lets http.ResponseController reach the connection, for the time that a body may take to arrive.
func (h *heldAnswer) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// ok reports whether there is an answer, and no error.
func (h *heldAnswer) ok() bool { return h.status == http.StatusOK }

// release gives the client the answer.
func (h *heldAnswer) release(model string, tried []string) {
	to := h.ResponseWriter.Header()
	for name, values := range h.header {
		to[name] = values
	}
	to.Set("X-Ridge-Model", model)
	to.Set("X-Ridge-Cascade", strings.Join(tried, ", "))
	h.ResponseWriter.WriteHeader(h.status)
	_, _ = h.ResponseWriter.Write(h.body.Bytes()) // an error is the connection's: the client has gone
}
