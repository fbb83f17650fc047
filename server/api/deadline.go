package api

import (
	"context"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"
)

// timeoutHeader says how long a request may take: seconds, or a duration such as 1500ms.
const timeoutHeader = "X-Request-Timeout"

// Deadline is the context of a request, which ends when the header says.
func Deadline(r *http.Request) (context.Context, context.CancelFunc, error) {
	d, err := timeout(r)
	if err != nil {
		return nil, nil, err
	}
	if d == 0 {
		ctx, cancel := context.WithCancel(r.Context())
		return ctx, cancel, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), d)
	return ctx, cancel, nil
}

// timeout is how long a request may take; 0: any time.
func timeout(r *http.Request) (time.Duration, error) {
	text := r.Header.Get(timeoutHeader)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if seconds, ferr := strconv.ParseFloat(text, 64); ferr == nil && math.Abs(seconds) < 1e9 {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || d <= 0 {
		return 0, Invalid("x-request-timeout", "x-request-timeout is %q; it should be seconds, or a duration such as 1500ms", text)
	}
	return d, nil
}

// Again is a request with a body in place of its own, to be answered once more by another endpoint: of the time that it may take so much has passed.
func Again(r *http.Request, body io.ReadCloser, passed time.Duration) *http.Request {
	again := r.WithContext(r.Context())
	again.Body = body
	if d, err := timeout(r); err == nil && d > 0 {
		again.Header = r.Header.Clone()
		again.Header.Set(timeoutHeader, max(d-passed, 1).String())
	}
	return again
}
