package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// post sends a body and returns the status and the answer.
func post(t testing.TB, h *httptest.Server, path, body string) (int, string) {
	t.Helper()
	r, text := answered(t, h, path, body)
	return r.StatusCode, text
}

// answered posts a body and returns the answer with its headers.
func answered(t testing.TB, h *httptest.Server, path, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.Post(h.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(data)
}
