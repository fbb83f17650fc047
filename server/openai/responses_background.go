package openai

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/serving"
	"github.com/ridge-llm/ridge/server/stored"
)

// inProgress is the status of a response that is being made in the background.
const inProgress = "in_progress"

// checkBackground refuses what cannot go on in the background.
func (q *responsesRequest) checkBackground(w http.ResponseWriter, k *keeper) error {
	if !q.Background {
		return nil
	}
	_, dropped := w.(tentative)
	switch {
	case k == nil:
		return api.Invalid("background", "background needs a response that is kept; leave store out, and start the server with --data-dir DIR")
	case dropped:
		return api.Invalid("background", "background is answered by the last model of a cascade alone")
	}
	return nil
}

// inBackground answers that a response is in progress, and makes it. With stream the answer is its events, and it is made though the client leaves.
func (s *API) inBackground(w http.ResponseWriter, r *http.Request, a *responsesAnswer, all []serving.Job) (any, error) {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(r.Context()))
	body := a.response(inProgress)
	if err := a.keep(body); err != nil {
		stop(err)
		return nil, stored.Error(err)
	}
	end, err := s.kept.begin(a.keeper.id, stop, a.log)
	if err != nil {
		stop(err)
		return nil, errors.Join(err, a.keeper.view.DeleteResponse(a.keeper.id))
	}
	underWay := api.Extend(r.Context())
	go func() {
		defer underWay()
		defer end()
		defer stop(nil)
		err := serving.Contained(func() error {
			if err := a.announce(); err != nil {
				return err
			}
			return s.Run(ctx, all, a.add)
		})
		a.ended(ctx, r, err)
	}()
	if a.log == nil {
		return body, nil
	}
	// The client may have gone.
	_ = a.log.follow(r.Context(), api.NewStream(w), 0)
	return nil, nil
}

// ended keeps a response that was made in the background, or says why it was not.
func (a *responsesAnswer) ended(ctx context.Context, r *http.Request, err error) {
	var body map[string]any
	switch cause := context.Cause(ctx); {
	case err == nil:
		body = a.response(a.status())
	case errors.Is(cause, errDeleted):
		a.last("error", map[string]any{"code": "deleted", "message": errDeleted.Error(), "param": nil}, nil)
		return
	case errors.Is(cause, errCancelled):
		a.open = false
		body = a.response("cancelled")
	default:
		if cause == nil {
			cause = errors.New(a.responder.Error(discarded{}, r.WithContext(ctx), err).Message)
		}
		a.open = false
		body = a.response("failed")
		body["error"] = responseError(cause)
	}
	name := "response." + body["status"].(string)
	if body["status"] == "cancelled" { // the API has no event of that name
		name = "response.incomplete"
	}
	a.last(name, map[string]any{"response": body}, body)
}

// last keeps a response as it has ended, if it is to be kept, and then tells those who follow it.
func (a *responsesAnswer) last(name string, told, kept map[string]any) {
	var events []event
	told["type"], told["sequence_number"] = name, a.sequence
	e, err := newEvent(name, told)
	if a.log != nil && err == nil {
		all, _, _ := a.log.from(0)
		events = append(slices.Clone(all), e)
	}
	if kept != nil && err == nil {
		err = a.keep(kept, events...)
	}
	if err != nil {
		a.responder.Log.Error("a response that was made in the background could not be kept", "id", a.keeper.id, "error", err)
	}
	if a.log != nil {
		a.log.add(e, true)
	}
}

// discarded is a http.ResponseWriter of which only the header counts.
type discarded struct{}

// Header implements http.ResponseWriter.
func (discarded) Header() http.Header { return http.Header{} }

// Write implements http.ResponseWriter.
func (discarded) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (discarded) WriteHeader(int) {}

// cancel is POST /v1/responses/ID/cancel: what has come of a response that is being made in the background is kept. One that has ended stays as it is.
func (s *Kept) cancel(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, view := r.PathValue("id"), stored.View(s.kept.store, r)
	k, err := readKept(view, id)
	if err != nil {
		return nil, err
	}
	if !k.Background {
		return nil, api.Invalid("id", "the response %s is not one that is made in the background", id)
	}
	s.kept.stop(r.Context(), id, errCancelled)
	if k, err = readKept(view, id); err != nil {
		return nil, err
	}
	return s.kept.settled(id, k.Response)
}
