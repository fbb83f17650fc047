package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// get fetches a path.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(data)
}

// TestExplain: every choice of an answer is explained under the answer's id and under the request's; an unknown one is
// not; and the metrics say how far prices were off.
func TestExplain(t *testing.T) {
	h, _ := start(t, ridge.Options{}, server.Options{})
	status, body := post(t, h, "/v1/completions", `{"prompt": "Once upon a time", "n": 2, "max_tokens": 9}`)
	var answer struct{ ID string }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	for _, id := range []string{answer.ID, strings.TrimPrefix(answer.ID, "cmpl-")} {
		status, body := get(t, h.URL+"/v1/requests/"+id+"/explain")
		var x struct{ Answers []ridge.Explanation }
		if err := json.Unmarshal([]byte(body), &x); err != nil || status != http.StatusOK || len(x.Answers) != 2 {
			t.Fatalf("%s: %d %s: %v", id, status, body, err)
		}
		for _, e := range x.Answers {
			if e.Output != 9 || len(e.Parts) == 0 || !(e.Floor > 0) {
				t.Errorf("an answer of 9 tokens is explained as %+v", e)
			}
		}
	}
	if status, body := get(t, h.URL+"/v1/requests/nobody/explain"); status != http.StatusNotFound || !strings.Contains(body, "nobody") {
		t.Errorf("an unknown request: %d %s", status, body)
	}
	_, metrics := get(t, h.URL+"/metrics")
	for _, name := range []string{"ridge_price_error_ratio", "ridge_price_predicted_seconds", "ridge_price_actual_seconds", "ridge_price_trusted"} {
		if !strings.Contains(metrics, "\n"+name+"{") {
			t.Errorf("there is no metric %s", name)
		}
	}
}
