package server_test

import (
	"os"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/testkit/leaks"
)

// TestLeaksAreSeen: what is left behind is counted.
func TestLeaksAreSeen(t *testing.T) {
	before, files := len(leaks.Goroutines()), len(leaks.Descriptors())
	m, err := ridge.Load("", ridge.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if now := len(leaks.Goroutines()); now <= before {
		t.Errorf("%d goroutines with a model, %d without", now, before)
	}
	if now := len(leaks.Descriptors()); files > 0 && now <= files {
		t.Errorf("%d files are open; %d were before another was opened", now, files)
	}
	f.Close()
	m.Close()
}
