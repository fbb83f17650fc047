package main

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/testkit/leaks"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/access"
)

// TestLoaded: ps understands what a server of ours answers, and says what is missing where it does not.
func TestLoaded(t *testing.T) {
	leaks.Check(t)
	m, err := ridge.Load("", ridge.Options{Context: 128})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	h := httptest.NewServer(server.New(m, server.Options{Keys: []access.Key{access.NewKey("secret")}}))
	defer h.Close()
	t.Setenv("OPENAI_API_KEY", "")
	if _, err := askLoaded(context.Background(), h.URL); err == nil || !strings.Contains(err.Error(), "set OPENAI_API_KEY") {
		t.Errorf("without a key: %v", err)
	}
	t.Setenv("OPENAI_API_KEY", "secret")
	five := ridge.Greedy()
	five.MaxTokens = 5
	if _, err := ridge.Text(m.Generate(context.Background(), "Once", five)); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	steps, err := askSteps(context.Background(), h.URL, 3)
	if err != nil || len(steps) != 3 || steps[2].Tokens != 1 || steps[2].Actual <= 0 || steps[2].At <= steps[1].At {
		t.Errorf("steps %+v %v", steps, err)
	}
	if err := printSteps(&table, steps); err != nil || strings.Count(table.String(), "\n") != 4 || !strings.Contains(table.String(), "PREDICTED") {
		t.Errorf("%v\n%s", err, table.String())
	}
	all, err := askLoaded(context.Background(), h.URL+"/")
	if err != nil || len(all) != 1 || all[0].Name != m.Name() || all[0].Size <= 0 || all[0].Context != m.Context() {
		t.Errorf("%+v %v", all, err)
	}
	leaks.Pages(t, m)
}
