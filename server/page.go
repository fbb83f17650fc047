package server

import (
	"embed"
	"io/fs"
	"net/http"

	"github.com/ridge-llm/ridge/engine"
)

//go:embed web
var web embed.FS

// page serves the web page. It holds no secrets: nobody needs a key for it, only for what it calls.
func page() http.Handler {
	files, err := fs.Sub(web, "web")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	serve := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; img-src data:; frame-ancestors 'none'")
		serve.ServeHTTP(w, r)
	})
}

// open reports whether a path is answered without a key.
func open(path string) bool {
	switch path {
	case "/", "/page.css", "/page.js", "/engine.js", "/health":
		return true
	}
	return false
}

// stats is GET /stats: engine.Stats as JSON, times in nanoseconds, for the page's view of the engine.
func (s *Server) stats(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, struct {
		Model string
		engine.Stats
	}{s.options.Name, s.model.Stats()})
}
