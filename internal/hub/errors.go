package hub

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// What a hub refuses, for errors.Is.
var (
	ErrUnknown = errors.New("hub: there is no such model, revision or file")
	ErrDenied  = errors.New("hub: the model may not be downloaded without a token or its owner's consent")
)

// refusal is an error of a kind, in words of its own.
type refusal struct {
	error
	kind error
}

// Unwrap gives the kind.
func (r *refusal) Unwrap() error { return r.kind }

// passing is an error that may be gone the next time.
type passing struct {
	err   error
	after time.Duration // not to try before
}

// Error implements error.
func (p *passing) Error() string { return p.err.Error() }

// Unwrap gives the error itself.
func (p *passing) Unwrap() error { return p.err }

// maxPatience is the longest that a server may ask us to wait; beyond, the user is told instead.
const maxPatience = 2 * time.Minute

// refused is the error of a reply that is none of what was asked for: of a file, or, if file is "", of the repository. It says
// what to do. The hub tells by X-Error-Code what a status leaves open.
func (h *Hub) refused(r Ref, file string, resp *http.Response) error {
	what := r.Repo
	if file != "" {
		what = r.Repo + "/" + file
	}
	page := h.Endpoint + "/" + r.Repo
	token := "set HF_TOKEN to a token from " + h.Endpoint + "/settings/tokens"
	if h.Token != "" {
		token = "the token in HF_TOKEN, or that `hf auth login` stored, does not let you"
	}
	code := resp.Header.Get("X-Error-Code")
	switch s := resp.StatusCode; {
	case code == "GatedRepo" || s == http.StatusForbidden:
		return &refusal{fmt.Errorf("hub: %s may not be downloaded without its owner's consent: accept the conditions at %s, and %s", what, page, token), ErrDenied}
	case code == "RevisionNotFound":
		return &refusal{fmt.Errorf("hub: %s has no revision %q; %s/tree lists those there are", r.Repo, r.Revision, page), ErrUnknown}
	case code == "EntryNotFound" || s == http.StatusNotFound && file != "":
		return &refusal{fmt.Errorf("hub: %s has no file %s at revision %s", r.Repo, file, r.Revision), ErrUnknown}
	case s == http.StatusUnauthorized:
		return &refusal{fmt.Errorf("hub: %s does not exist, or is not public (status 401); check the name, and if it is private or gated, %s", what, token), ErrDenied}
	case s == http.StatusNotFound || code == "RepoNotFound":
		return &refusal{fmt.Errorf("hub: there is no model %s on %s; check the name", r.Repo, h.Endpoint), ErrUnknown}
	case s == http.StatusTooManyRequests || s == http.StatusServiceUnavailable:
		after := retryAfter(resp.Header)
		err := fmt.Errorf("hub: %s has had too many requests (status %d); try again in %v, or with HF_TOKEN set, which allows more", h.Endpoint, s, max(after, time.Second))
		if after > maxPatience {
			return err
		}
		return &passing{err, after}
	case s >= 500, s == http.StatusRequestTimeout:
		return &passing{err: fmt.Errorf("hub: %s could not answer for %s (status %d); try again later", resp.Request.URL.Host, what, s)}
	}
	return fmt.Errorf("hub: %s answers status %d for %s", resp.Request.URL.Host, resp.StatusCode, what)
}

// retryAfter is how long a reply asks to wait: seconds or a date.
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	if n, err := strconv.Atoi(value); err == nil && n >= 0 && n < 1e6 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0).Round(time.Second)
	}
	return 0
}
