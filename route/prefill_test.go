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

// TestPrefillAhead: once a server for prefill has said where it is asked for pages, and takes the names of requests, a replica is told while the prompt is being computed; until it fails, or hangs.
func TestPrefillAhead(t *testing.T) {
	prefill, replica := newBackend(t, "m"), newBackend(t, "m")
	told, fails := make(chan string, 1), false
	prefill.set(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Params struct {
				ID string `json:"remote_request_id"`
			} `json:"kv_transfer_params"`
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Params.ID == "" {
			t.Errorf("the server for prefill is asked under the name %q (%v)", asked.Params.ID, err)
		}
		if told != nil { // the answer comes when the replica has been told
			select {
			case id := <-told:
				if id != asked.Params.ID {
					t.Errorf("the replica is told of %q, and the other of %q", id, asked.Params.ID)
				}
			case <-r.Context().Done():
				return
			}
		}
		if fails {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, `{"choices":[],"kv_transfer_params":{"do_remote_prefill":true,"remote_host":"h","remote_port":5600,"remote_num_tokens":64,"remote_request_id":%q}}`, asked.Params.ID)
	})
	var got map[string]any
	hangs := false
	replica.set(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Params map[string]any `json:"kv_transfer_params"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		if got = body.Params; got != nil && told != nil && !hangs {
			told <- got["remote_request_id"].(string)
		}
		io.WriteString(w, "{}")
	})
	now := fakeNow()
	rt, s := router(t, Options{Prefill: []string{prefill.URL}, PrefillFrom: 1, Now: now.read}, replica)
	send := func() {
		t.Helper()
		got = nil
		if a, _, err := post(t, s.URL+"/v1/completions", `{"model":"m","prompt":"many words of a prompt"}`); err != nil || a.StatusCode != http.StatusOK {
			t.Fatal(a, err)
		}
		if n := rt.prefill.all[0].active.Load(); n != 0 {
			t.Errorf("%d prompts are said to be computed", n)
		}
	}
	ahead := told
	told = nil
	send() // in turns: nothing is known of the server
	told = ahead
	send()
	if got["remote_host"] != "h" || got["remote_port"] != 5600.0 || got["do_remote_prefill"] != true || got["remote_num_tokens"] != nil {
		t.Errorf("ahead of the prompt's end the replica is told %v", got)
	}
	fails = true
	send()
	if rt.prefill.all[0].place.Load() != nil {
		t.Error("a server that has failed is relied on")
	}
	now.add(2 * prefillRest)
	fails, told = false, nil
	send()
	told, hangs = ahead, true
	if send(); rt.prefill.all[0].until.Load() != now.read().Add(prefillRest).UnixNano() {
		t.Error("a server that hangs has not failed")
	}
}

// TestPrefillFull: a prompt whose server for prefill is full is computed by another, and the full one is not asked for as long as it says, 2 s at most; a limit of a key's is no such answer.
func TestPrefillFull(t *testing.T) {
	first, second, replica := newBackend(t, "m"), newBackend(t, "m"), newBackend(t, "m")
	asked, after, code := 0, "1", "queue_full"
	first.set(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Retry-After", after)
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprintf(w, `{"error":{"code":%q}}`, code)
	})
	second.set(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"kv_transfer_params":{"remote_host":"second"}}`)
	})
	replica.set(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	now := fakeNow()
	_, s := router(t, Options{Prefill: []string{first.URL, second.URL}, PrefillFrom: 100, Now: now.read}, replica)
	send := func(wantAsked bool, wantBy string) {
		t.Helper()
		asked = 0
		_, text, err := post(t, s.URL+"/v1/completions", fmt.Sprintf(`{"model":"m","prompt":%q}`, strings.Repeat("word ", 200)))
		if err != nil {
			t.Fatal(err)
		}
		if (asked > 0) != wantAsked || strings.Contains(text, `"second"`) != (wantBy == "second") {
			t.Errorf("the first is asked %d times, and the replica told %s; the prompt should be computed by %q", asked, text[max(0, len(text)-100):], wantBy)
		}
	}
	send(true, "second")
	send(false, "second")
	now.add(1100 * time.Millisecond)
	after = "60"
	send(true, "second")
	now.add(1900 * time.Millisecond)
	send(false, "second")
	now.add(200 * time.Millisecond)
	code = "rate_limit_exceeded"
	send(true, "replica")
	send(true, "replica")
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
