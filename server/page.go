package server

import (
	"cmp"
	"embed"
	"net/http"
	"strconv"
	"strings"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server/api"
)

//go:embed web
var web embed.FS

// pageFiles is where the page's own files are.
const pageFiles = "/page/"

// page serves the web page. It needs no key, only what it calls does.
func page(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", "default-src 'self'; img-src data:; frame-ancestors 'none'")
	name := strings.TrimPrefix(r.URL.Path, pageFiles)
	if name == "/" {
		name = ""
	}
	http.ServeFileFS(w, r, web, "web/"+cmp.Or(name, "index.html"))
}

// open reports whether a path is answered without a key.
func open(path string) bool {
	return path == "/" || path == "/health" || strings.HasPrefix(path, pageFiles)
}

// steps is GET /steps?n=100: the latest steps with their predicted times.
func (s *Server) steps(_ http.ResponseWriter, r *http.Request) (any, error) {
	n := defaultSteps
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			return nil, api.Invalid("n", "n is %.40q; a whole number from 1 is possible", text)
		}
	}
	return map[string]any{"steps": s.Steps(n)}, nil
}

// defaultSteps is the default of n.
const defaultSteps = 100

// stats is GET /stats: ridge.Stats as JSON, times in nanoseconds, for the page's view of the engine.
func (s *Server) stats(http.ResponseWriter, *http.Request) (any, error) {
	return struct {
		Model string
		ridge.Stats
	}{s.Service.Name, s.Stats()}, nil
}
