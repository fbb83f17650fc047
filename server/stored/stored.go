// Package stored is the store on the side of HTTP: endpoints that need it, its errors, pages of lists.
package stored

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/ridge-llm/ridge/server/access"
	"github.com/ridge-llm/ridge/server/api"
	"github.com/ridge-llm/ridge/server/store"
)

// View is a store as a request's client sees it.
func View(s *store.Store, r *http.Request) store.View {
	c := access.From(r.Context())
	return s.View(c.Tenant, c.All)
}

// Handle is r.Handle for an endpoint that needs a store; without one (nil) it answers how to get one.
func Handle(r *api.Responder, s *store.Store, e api.Endpoint) http.HandlerFunc {
	return r.Handle(func(w http.ResponseWriter, r *http.Request) (any, error) {
		if s == nil {
			return nil, &api.Error{Status: http.StatusNotFound, Kind: "invalid_request_error", Code: "no_data_dir", Message: "this server stores no files and no responses; start it with --data-dir DIR"}
		}
		body, err := e(w, r)
		return body, Error(err)
	})
}

// Error gives an error of the store the API's shape.
func Error(err error) error {
	var large *store.TooLargeError
	var quota *store.QuotaError
	switch {
	case errors.As(err, &quota):
		return &api.Error{Status: http.StatusTooManyRequests, Kind: "rate_limit_error", Code: "quota_exceeded", Message: quota.Reason}
	case errors.Is(err, store.ErrNotFound):
		return &api.Error{Status: http.StatusNotFound, Kind: "invalid_request_error", Code: "not_found", Message: strings.TrimPrefix(err.Error(), "store: not found: ")}
	case errors.As(err, &large):
		return &api.Error{Status: http.StatusRequestEntityTooLarge, Kind: "invalid_request_error", Param: "file", Message: strings.TrimPrefix(err.Error(), "store: ")}
	case store.IsFull(err):
		return &api.Error{Status: http.StatusInsufficientStorage, Kind: "server_error", Code: "disk_full", Message: "the server's disk is full and nothing was stored: " + strings.TrimPrefix(err.Error(), "store: ")}
	}
	return err
}

// Page is the part of a list, newest first, that a query asks for: limit, after and order. usual is the limit where it has none, most the largest.
func Page[T any](q url.Values, usual, most int, list []T, id func(T) string) (any, error) {
	limit := usual
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			return nil, api.Invalid("limit", "limit is %q; 1 to %d is possible", text, most)
		}
		limit = n
	}
	switch order := q.Get("order"); order {
	case "", "desc":
	case "asc":
		slices.Reverse(list)
	default:
		return nil, api.Invalid("order", "order is %q; asc and desc are possible", order)
	}
	if after := q.Get("after"); after != "" {
		list = list[slices.IndexFunc(list, func(x T) bool { return id(x) == after })+1:]
	}
	more := len(list) > limit
	list = append([]T{}, list[:min(limit, len(list))]...)
	body := map[string]any{"object": "list", "data": list, "has_more": more, "first_id": nil, "last_id": nil}
	if len(list) > 0 {
		body["first_id"], body["last_id"] = id(list[0]), id(list[len(list)-1])
	}
	return body, nil
}
