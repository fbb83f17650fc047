package api

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"time"
)

// deadline is a context that ends when the header x-request-timeout says: seconds, or a duration such as 1500ms.
func deadline(r *http.Request) (context.Context, context.CancelFunc, error) {
	text := r.Header.Get("X-Request-Timeout")
	if text == "" {
		ctx, cancel := context.WithCancel(r.Context())
		return ctx, cancel, nil
	}
	d, err := time.ParseDuration(text)
	if seconds, ferr := strconv.ParseFloat(text, 64); ferr == nil && math.Abs(seconds) < 1e9 {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || d <= 0 {
		return nil, nil, Invalid("x-request-timeout", "x-request-timeout is %q; it should be seconds, or a duration such as 1500ms", text)
	}
	ctx, cancel := context.WithTimeout(r.Context(), d)
	return ctx, cancel, nil
}
