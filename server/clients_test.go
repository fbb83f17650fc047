package server_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
)

// clientRequest is a line of a client's log: what it sends, and what it looks for in the answer.
type clientRequest struct {
	Source       string // of the first line: where it was read
	Recorded     bool   // of the first line: the program was run
	Method, Path string
	Headers      map[string]string
	Body         json.RawMessage
	Status       int // 0: 200
	Has          []string
}

// TestClients sends what programs send that CI does not run. Most logs were recorded between the program and a server, and then made short: other texts, fewer tools, fewer tokens. The others were written after
// the sources that each names, or after what is known of them, where it says so.
func TestClients(t *testing.T) {
	c, _ := withStore(t, t.TempDir(), ridge.Options{Context: 1024, Parallel: 2})
	logs, err := filepath.Glob("testdata/clients/*.jsonl")
	recorded := 0
	if err != nil || len(logs) < 10 {
		t.Fatalf("%d logs, %v", len(logs), err)
	}
	for _, log := range logs {
		t.Run(strings.TrimSuffix(filepath.Base(log), ".jsonl"), func(t *testing.T) {
			data, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			lines := json.NewDecoder(bytes.NewReader(data))
			for n := 0; lines.More(); n++ {
				var q clientRequest
				if err := lines.Decode(&q); err != nil {
					t.Fatal(err)
				}
				if n == 0 {
					if q.Source == "" {
						t.Fatal("the log does not say what it was written after")
					}
					if q.Recorded {
						recorded++
					}
					continue
				}
				r, err := http.NewRequest(q.Method, c.url+q.Path, bytes.NewReader(q.Body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				for name, value := range q.Headers {
					r.Header.Set(name, value)
				}
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(answer.Body)
				answer.Body.Close()
				if want := max(q.Status, 200); err != nil || answer.StatusCode != want {
					t.Errorf("line %d, %s %s: %d, %v %.300s", n+1, q.Method, q.Path, answer.StatusCode, err, text)
					continue
				}
				for _, want := range q.Has {
					if !strings.Contains(string(text), want) {
						t.Errorf("line %d, %s %s: no %s in %.600s", n+1, q.Method, q.Path, want, text)
					}
				}
			}
		})
	}
	if recorded < 10 {
		t.Errorf("%d logs were recorded", recorded)
	}
}
