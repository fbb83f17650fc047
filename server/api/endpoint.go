// Package api is what the server's APIs share on the side of HTTP: reading a JSON body with errors that name the field, endpoints,
// errors, server-sent events.
package api

import (
	"context"
	"net/http"
)

// Endpoint answers a request: with the JSON of body, with what it has written itself if body is nil, as streams do, or with
// an error, before anything was written.
type Endpoint func(w http.ResponseWriter, r *http.Request) (body any, err error)

// Handle makes an endpoint a handler.
func (s *Responder) Handle(e Endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch body, err := e(w, r); {
		case err != nil:
			s.Fail(w, r, err)
		case body != nil:
			WriteJSON(w, http.StatusOK, body)
		}
	}
}

// Timed is handle for an endpoint whose work ends, with its request's context, when X-Request-Timeout says.
func (s *Responder) Timed(e Endpoint) http.HandlerFunc {
	return s.Handle(func(w http.ResponseWriter, r *http.Request) (any, error) {
		ctx, cancel, err := Deadline(r)
		if err != nil {
			return nil, err
		}
		defer cancel()
		return e(w, r.WithContext(ctx))
	})
}

// idKey is under which a request's context has its id.
type idKey struct{}

// WithID is a context that carries a request's id.
func WithID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, idKey{}, id)
}

// RequestID is the id that a request's context carries; "" if none.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(idKey{}).(string)
	return id
}
