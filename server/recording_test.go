package server_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/simulate"
	"github.com/ridge-llm/ridge/internal/testkit/leaks"
	"github.com/ridge-llm/ridge/server"
)

// TestRecordingOfKey: of the keys of a server a recording holds the prompts and answers of the one that it is of, and no token of the others'; its replay
// decides the same. Without such a key it holds none.
func TestRecordingOfKey(t *testing.T) {
	for _, of := range []string{"alice", "bob", ""} {
		var file bytes.Buffer
		texts := map[string][]int32{}
		func() {
			leaks.Check(t)
			m, err := ridge.Load("", ridge.Options{Threads: 1, Record: &file, RecordHidden: true, RecordTenant: of, Speculation: ridge.Speculation{Method: "ngram"}})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			s := server.New(m, server.Options{Keys: aliceAndBob})
			defer s.Close()
			h := httptest.NewServer(s)
			defer h.Close()
			for secret, name := range map[string]string{"a": "alice", "b": "bob"} {
				prompt := name + " asks the fox about the fox and the fox and the fox about the fox and the fox"
				for range 2 { // the second is found in the cache
					if status, text := (tenant{t, h.URL, secret}).call(http.MethodPost, "/v1/completions", `{"prompt": "`+prompt+`", "max_tokens": 20, "temperature": 0, "ignore_eos": true}`); status != 200 {
						t.Fatal(text)
					}
				}
				if texts[name], err = m.Encode(prompt, true); err != nil {
					t.Fatal(err)
				}
			}
			leaks.Pages(t, m)
		}()
		for name, ids := range texts {
			shown := strings.Count(file.String(), strings.Join(strings.Fields(fmt.Sprint(ids)), ","))
			want := 0
			if name == of {
				want = 2
			}
			if shown != want {
				t.Errorf("the recording of %q has the prompt of %s %d times", of, name, shown)
			}
		}
		r, err := simulate.ReadRecording("test", &file)
		if err != nil {
			t.Fatal(err)
		}
		c, _, err := simulate.Replay(r)
		if err != nil || c.Differs != "" || c.Requests != 4 || r.Incomplete != "" {
			t.Errorf("the recording of %q: %+v, %v, %s", of, c, err, r.Incomplete)
		}
	}
}
