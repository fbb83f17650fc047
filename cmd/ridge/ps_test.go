package main

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
)

// TestLoaded: ps understands what a server of ours answers, and says what is missing where it does not.
func TestLoaded(t *testing.T) {
	m, err := ridge.Load("", ridge.Options{Context: 128})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	h := httptest.NewServer(server.New(m, server.Options{Keys: []string{"secret"}}))
	defer h.Close()
	t.Setenv("OPENAI_API_KEY", "")
	if _, err := askLoaded(context.Background(), h.URL); err == nil || !strings.Contains(err.Error(), "set OPENAI_API_KEY") {
		t.Errorf("without a key: %v", err)
	}
	t.Setenv("OPENAI_API_KEY", "secret")
	all, err := askLoaded(context.Background(), h.URL+"/")
	if err != nil || len(all) != 1 || all[0].Name != m.Name() || all[0].Size <= 0 || all[0].Context != m.Context() {
		t.Errorf("%+v %v", all, err)
	}
}
