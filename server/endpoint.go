package server

import "net/http"

// endpoint answers a request: with the JSON of body, with what it has written itself if body is nil, as streams do, or with
// an error, before anything was written.
type endpoint func(w http.ResponseWriter, r *http.Request) (body any, err error)

// handle makes an endpoint a handler.
func (s *Server) handle(e endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch body, err := e(w, r); {
		case err != nil:
			s.fail(w, r, err)
		case body != nil:
			writeJSON(w, http.StatusOK, body)
		}
	}
}

// timed is handle for an endpoint whose work ends, with its request's context, when X-Request-Timeout says.
func (s *Server) timed(e endpoint) http.HandlerFunc {
	return s.handle(func(w http.ResponseWriter, r *http.Request) (any, error) {
		ctx, cancel, err := deadline(r)
		if err != nil {
			return nil, err
		}
		defer cancel()
		return e(w, r.WithContext(ctx))
	})
}

// kept is handle for what needs the store; without one it says how to get one.
func (s *Server) kept(e endpoint) http.HandlerFunc {
	return s.handle(func(w http.ResponseWriter, r *http.Request) (any, error) {
		if s.options.Store == nil {
			return nil, &apiError{Status: http.StatusNotFound, Kind: "invalid_request_error", Code: "no_data_dir", Message: "this server keeps no files; start it with --data-dir DIR"}
		}
		body, err := e(w, r)
		return body, storeError(err)
	})
}
