package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/server/serving"
)

// TestCascadeDeadline: what X-Request-Timeout allows is for all models together, not for each.
func TestCascadeDeadline(t *testing.T) {
	const pattern, took = "POST /v1/completions", 20 * time.Millisecond
	var seen []time.Duration
	note := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			d, err := time.ParseDuration(r.Header.Get("X-Request-Timeout"))
			if err != nil {
				t.Error(err)
			}
			seen = append(seen, d)
			time.Sleep(took)
			w.WriteHeader(status)
		}
	}
	s := &Server{Service: &serving.Service{Name: "large"}}
	for _, name := range []string{"small", "middle"} {
		s.stages = append(s.stages, stage{Stage: Stage{Name: name}, routes: map[string]http.HandlerFunc{pattern: note(http.StatusGatewayTimeout)}})
	}
	for text, allowed := range map[string]time.Duration{"50": 50 * time.Second, "30ms": 30 * time.Millisecond} {
		seen = nil
		r := httptest.NewRequest("POST", "/v1/completions", nil)
		r.Header.Set("X-Request-Timeout", text)
		s.cascaded(pattern, note(http.StatusOK))(httptest.NewRecorder(), r)
		if len(seen) != 3 {
			t.Fatalf("%d models were asked", len(seen))
		}
		for i, d := range seen {
			if most := max(allowed-time.Duration(i)*took, 1); d <= 0 || d > most {
				t.Errorf("of %v model %d is allowed %v, %v at most are left", allowed, i, d, most)
			}
		}
		if r.Header.Get("X-Request-Timeout") != text {
			t.Error("the request's own header was changed")
		}
	}
}
