package route

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPrefill: a long prompt is computed by a server for that, whose kv_transfer_params the replica gets with the client's own fields; a short one, and one whose server fails, refuses or has gone, is
// computed by the replica.
func TestPrefill(t *testing.T) {
	prefill, replica := newBackend(t, "m"), newBackend(t, "m")
	var asked map[string]any
	refuses := 0
	answer := `{"choices":[],"kv_transfer_params":{"do_remote_prefill":true,"remote_host":"h","remote_port":5600}}`
	prefill.set(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		switch {
		case refuses != 0:
			w.WriteHeader(refuses)
		case answer == "":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		io.WriteString(w, answer)
	})
	replica.set(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Write(body)
	})
	now := fakeNow()
	rt, s := router(t, Options{Prefill: []string{prefill.URL}, PrefillFrom: 100, Now: now.read}, replica)
	long := strings.Repeat("word ", 200)
	send := func(prompt string) map[string]any {
		t.Helper()
		asked = nil
		_, text, err := post(t, s.URL+"/v1/completions", fmt.Sprintf(`{"model":"m","prompt":%q,"max_tokens":7,"n":2,"stream":true,"stream_options":{"include_usage":true},"seed":12345678901234567}`, prompt))
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if got["max_tokens"] != 7.0 || got["stream"] != true || !strings.Contains(text, "12345678901234567") {
			t.Errorf("the replica gets %s", text)
		}
		return got
	}
	got := send(long)
	if k, ok := got["kv_transfer_params"].(map[string]any); !ok || k["remote_port"] != 5600.0 || k["do_remote_prefill"] != true {
		t.Errorf("the replica is told %v", got["kv_transfer_params"])
	}
	if asked["max_tokens"] != 1.0 || asked["stream"] != false || asked["n"] != nil || asked["stream_options"] != nil || asked["prompt"] != long {
		t.Errorf("the server for prefill is asked %v", asked)
	}
	if got := send("short"); got["kv_transfer_params"] != nil || asked != nil {
		t.Errorf("of a short prompt the replica is told %v, and the other asked %v", got["kv_transfer_params"], asked)
	}
	for _, refuses = range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests} {
		if got := send(long); got["kv_transfer_params"] != nil || asked == nil {
			t.Errorf("of a request that is refused with %d the replica is told %v", refuses, got["kv_transfer_params"])
		}
		if send(long); asked == nil {
			t.Errorf("a server that has refused a request with %d is not asked for others", refuses)
		}
	}
	refuses = 0
	for _, bad := range []string{"", `{"choices":[]}`, `{"kv_transfer_params":null}`, "no JSON"} {
		now.add(2 * prefillRest)
		answer = bad
		if got := send(long); got["kv_transfer_params"] != nil || asked == nil {
			t.Errorf("behind the answer %q the replica is told %v", bad, got["kv_transfer_params"])
		}
		if send(long); asked != nil {
			t.Error("a server that has failed is asked again at once")
		}
	}
	now.add(2 * prefillRest)
	prefill.Close()
	if got := send(long); got["kv_transfer_params"] != nil {
		t.Errorf("behind a server that has gone the replica is told %v", got["kv_transfer_params"])
	}
	if n := rt.prefill.all[0].active.Load(); n != 0 {
		t.Errorf("%d prompts are said to be computed", n)
	}
}

// manualClock is a clock that is set by hand.
type manualClock struct {
	mu sync.Mutex
	at time.Time
}

func fakeNow() *manualClock { return &manualClock{at: time.Unix(1_700_000_000, 0)} }

func (h *manualClock) read() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

func (h *manualClock) add(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = h.at.Add(d)
}
