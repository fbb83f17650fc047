package server_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge/server"
)

// TestModelsAsked: what is asked of the models while they take each other's place is answered, of a model on its way out as of any other.
func TestModelsAsked(t *testing.T) {
	s := startMany(t, []string{"a", "b"}, 0, server.ModelsOptions{Most: 1})
	done := make(chan struct{})
	var wg sync.WaitGroup
	for _, path := range []string{"/api/ps", "/api/tags", "/v1/models", "/metrics", "/stats", "/steps", "/api/show"} {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					if n == 0 {
						t.Errorf("%s was never asked", path)
					}
					return
				default:
				}
				status, text := http.StatusOK, ""
				if path == "/api/show" {
					var err error
					if status, text, err = send(s.URL+path, `{"model": "a"}`); err != nil {
						t.Error(err)
						return
					}
				} else {
					status, text = fetch(t, s.URL+path)
				}
				if status != http.StatusOK && !(status == http.StatusNotFound && (path == "/stats" || path == "/steps")) {
					t.Errorf("%s: status %d: %.300s", path, status, text)
					return
				}
			}
		})
	}
	for i := range 12 {
		s.say(t, fmt.Sprint(string("ab"[i%2])), "", http.StatusOK)
	}
	close(done)
	wg.Wait()
}
