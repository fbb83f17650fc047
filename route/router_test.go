package route

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/server/access"
)

const chat = "/v1/chat/completions"

// TestTurns: replicas take turns, requests go through as they are, with the client's address and an id; answers come back as they are.
func TestTurns(t *testing.T) {
	a, b := newBackend(t, "m"), newBackend(t, "m")
	_, s := router(t, Options{}, a, b)
	from := map[string]int{}
	for range 6 {
		answer, text, err := post(t, s.URL+chat+"?q=1", `{"model":"m"}`, "Authorization", "Bearer own", "Origin", s.URL)
		if err != nil || answer.StatusCode != http.StatusOK || answer.Header.Get("X-Request-Id") == "" {
			t.Fatalf("%v %v", answer, err)
		}
		from[text]++
	}
	if len(from) != 2 || a.asked.Load() != 3 {
		t.Errorf("answers came from %v", from)
	}
	for _, h := range a.headers {
		if h.Get("Authorization") != "Bearer own" || h.Get("X-Forwarded-For") != "127.0.0.1" || h.Get("X-Request-Id") == "" || h.Get("Origin") != "" {
			t.Errorf("the replica was sent %v", h)
		}
	}
}

// TestStream: each event is with the client before the next is made, in the framing of every API.
func TestStream(t *testing.T) {
	for path, form := range map[string][2]string{
		chat:           {"text/event-stream", "data: {\"n\":%d}\n\n"},
		"/v1/messages": {"text/event-stream; charset=utf-8", "event: x\r\ndata: {\"n\":%d}\r\n\r\n"},
		"/api/chat":    {"application/x-ndjson", "{\"n\":%d}\n"},
		"/v1/speech":   {"audio/wav", "%d\n\n"},
	} {
		next := make(chan bool)
		b := newBackend(t)
		b.set(func(w http.ResponseWriter, r *http.Request) {
			for i := range 5 {
				stream(w, form[0], fmt.Sprintf(form[1], i))
				<-next
			}
		})
		_, s := router(t, Options{}, b)
		answer, err := http.Post(s.URL+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			want := fmt.Sprintf(form[1], i)
			got := make([]byte, len(want))
			if _, err := io.ReadFull(answer.Body, got); err != nil || string(got) != want {
				t.Fatalf("%s: %q, %v", path, got, err)
			}
			next <- true
		}
		answer.Body.Close()
	}
}

// TestModels: a request goes to a replica that has its model; the list is of all.
func TestModels(t *testing.T) {
	a, b := newBackend(t, "m", "lora"), newBackend(t, "n")
	_, s := router(t, Options{}, a, b)
	for range 3 {
		for model, want := range map[string]string{"lora": a.URL, "n": b.URL} {
			if _, text, err := post(t, s.URL+chat, `{"model":"`+model+`"}`); err != nil || !strings.Contains(text, want) {
				t.Errorf("%s: %s %v", model, text, err)
			}
		}
	}
	answer, err := http.Get(s.URL + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); strings.Count(string(text), `"id"`) != 3 {
		t.Errorf("models: %s", text)
	}
}

// TestCacheAware: turns of a conversation go where the ones before went, unless that replica has more to do than the prompt is worth.
func TestCacheAware(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	rt, s := router(t, Options{Policy: named(t, "cache_aware")}, a, b)
	text := strings.Repeat("a long story about a fox ", 100)
	ask := func(who, turns int) string {
		t.Helper()
		var messages []string
		for i := range turns {
			messages = append(messages, fmt.Sprintf(`{"role":"user","content":"%d %d %s"}`, who, i, text))
		}
		_, from, err := post(t, s.URL+chat, `{"messages":[`+strings.Join(messages, ",")+`]}`)
		if err != nil {
			t.Fatal(err)
		}
		return from
	}
	first := map[int]string{}
	for turn := 1; turn < 5; turn++ {
		for who := range 4 {
			from := ask(who, turn)
			if first[who] == "" {
				first[who] = from
			}
			if from != first[who] {
				t.Errorf("turn %d of conversation %d went to another replica", turn, who)
			}
		}
	}
	if a.asked.Load() != 8 {
		t.Errorf("%d of 16 requests went to one of two replicas", a.asked.Load())
	}
	for _, x := range []*backend{a, b} {
		x.mu.Lock()
		x.metrics = "ridge_queue_seconds{} 0\nridge_prompt_token_seconds 0.001\n"
		if strings.Contains(first[0], x.URL) {
			x.metrics = "# HELP x\nridge_queue_seconds{model_name=\"m\"} 60\nridge_prompt_token_seconds 0.001\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"100\"} 1\n"
		}
		x.mu.Unlock()
	}
	wait(t, "the queue is reported", func() bool {
		all := rt.list()
		return all[0].Queue+all[1].Queue > 50 && all[0].Token == 0.001 && all[1].Token == 0.001
	})
	if ask(0, 5) == first[0] {
		t.Error("a request went to a replica that is busy for a minute, for the sake of a cache")
	}
}

// TestLeave: a client that leaves ends its request at the replica, whether it has begun to answer or not.
func TestLeave(t *testing.T) {
	gone := make(chan bool, 1)
	b := newBackend(t)
	_, s := router(t, Options{}, b)
	for _, begun := range []bool{false, true} {
		b.set(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if begun {
				stream(w, "text/event-stream", "data: {}\n\n")
			}
			select {
			case <-r.Context().Done():
				gone <- true
			case <-time.After(20 * time.Second):
				gone <- false
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			wait(t, "the replica is asked", func() bool { return b.asked.Swap(0) > 0 })
			cancel()
		}()
		if _, _, err := postUntil(t, ctx, s.URL+chat, "{}"); err == nil {
			t.Error("the client has left and got an answer")
		}
		if !<-gone {
			t.Errorf("begun %t: the replica goes on for a client that has left", begun)
		}
	}
}

// TestPriority: while replicas have as many requests as they may, others wait by priority, and one too many is refused.
func TestPriority(t *testing.T) {
	b := newBackend(t)
	next, order := make(chan bool), make(chan string, 10)
	b.set(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		order <- string(text)
		<-next
	})
	rt, s := router(t, Options{MaxInFlight: 1, Queue: 4}, b)
	send := func(priority, waiting int) {
		go post(t, s.URL+chat, fmt.Sprintf(`{"priority":%d}`, priority))
		wait(t, "the request is there", func() bool {
			rt.mu.Lock()
			defer rt.mu.Unlock()
			return len(rt.queue) == waiting && rt.replicas[0].active == 1
		})
	}
	for i, priority := range []int{5, 5, -1, math.MaxInt, math.MinInt} {
		send(priority, i)
	}
	if answer, text, err := post(t, s.URL+chat, `{}`); err != nil || answer.StatusCode != http.StatusTooManyRequests || !strings.Contains(text, "queue_full") {
		t.Errorf("%v %s %v", answer, text, err)
	}
	for _, want := range []int{5, math.MinInt, -1, 5, math.MaxInt} {
		if got := <-order; got != fmt.Sprintf(`{"priority":%d}`, want) {
			t.Errorf("%s was sent to the replica, and %d is the next", got, want)
		}
		next <- true
	}
}

// TestKeys: keys, their limits and what only an admin may ask; replicas are shown the router's own key.
func TestKeys(t *testing.T) {
	b := newBackend(t)
	user, admin := access.NewKey("user"), access.NewKey("admin")
	user.Limits, admin.Admin = access.Limits{Requests: 2, Tokens: 10000}, true
	_, s := router(t, Options{Keys: []access.Key{user, admin}, ReplicaKey: "inner"}, b)
	for _, c := range []struct {
		path, key, body string
		status          int
	}{
		{chat, "", "{}", 401}, {chat, "wrong", "{}", 401}, {chat, "user", `{"messages":["` + strings.Repeat("x", 50000) + `"]}`, 429}, {chat, "user", "{}", 200}, {chat, "user", "{}", 429},
		{"/add_worker?url=http://127.0.0.1:1", "user", "", 403}, {"/v1/load_lora_adapter", "user", "{}", 403}, {"/v1/load_lora_adapter", "admin", "{}", 200},
		{"/add_worker?url=" + b.URL + "/", "admin", "", 400}, {"/add_worker", "admin", "", 400}, {"/remove_worker?url=http://x", "admin", "", 400},
	} {
		if answer, text, err := post(t, s.URL+c.path, c.body, "Authorization", "Bearer "+c.key); err != nil || answer.StatusCode != c.status {
			t.Errorf("%s by %q: %v %s, status %d wanted", c.path, c.key, err, text, c.status)
		}
	}
	for _, h := range b.headers {
		if h.Get("Authorization") != "Bearer inner" {
			t.Errorf("the replica was shown %q", h.Get("Authorization"))
		}
	}
	if answer, _, err := post(t, s.URL+"/health", ""); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("health without a key: %v", err)
	}
}

// TestDrain: a replica that is removed ends what it has, gets nothing new and is forgotten then; one that is added gets requests.
func TestDrain(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	next := make(chan bool)
	a.set(func(w http.ResponseWriter, r *http.Request) {
		stream(w, "text/event-stream", "data: {}\n\n")
		<-next
		stream(w, "text/event-stream", "data: [DONE]\n\n")
	})
	rt, s := router(t, Options{}, a)
	answer, err := http.Post(s.URL+chat, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	if line, err := lines.ReadString('\n'); line != "data: {}\n" {
		t.Fatal(line, err)
	}
	for _, path := range []string{"/add_worker?url=" + b.URL, "/remove_worker?url=" + a.URL} {
		if answer, text, err := post(t, s.URL+path, ""); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v %s", path, err, text)
		}
	}
	wait(t, "the new replica is ready", func() bool {
		all := rt.list()
		return len(all) == 2 && all[0].Status == "draining" && all[1].Status == "ready"
	})
	for range 4 {
		if _, text, err := post(t, s.URL+chat, "{}"); err != nil || !strings.Contains(text, b.URL) {
			t.Fatalf("%s %v", text, err)
		}
	}
	close(next)
	if rest, err := io.ReadAll(lines); err != nil || !strings.HasSuffix(string(rest), "[DONE]\n\n") {
		t.Errorf("the request of the removed replica ended with %q, %v", rest, err)
	}
	wait(t, "the old replica is forgotten", func() bool { return len(rt.list()) == 1 })
}

// TestRestart: a router that goes on from the state of another knows its replicas and what was sent where.
func TestRestart(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	file := filepath.Join(t.TempDir(), "state")
	rt, s := router(t, Options{Policy: named(t, "cache_aware"), State: file}, a, b)
	prompt := func(who int) string {
		return fmt.Sprintf(`{"prompt":"%s"}`, strings.Repeat(fmt.Sprint("conversation ", who, " "), 100))
	}
	went := map[int]string{}
	for who := range 6 {
		_, went[who], _ = post(t, s.URL+"/v1/completions", prompt(who))
	}
	if err := rt.save(); err != nil {
		t.Fatal(err)
	}
	next, err := New(Options{Policy: named(t, "cache_aware"), State: file, Interval: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	wait(t, "the replicas are ready again", func() bool { next.mu.Lock(); defer next.mu.Unlock(); return next.count(ready) == 2 })
	s.Config.Handler = next
	for who := range 6 {
		if _, from, err := post(t, s.URL+"/v1/completions", prompt(who)); err != nil || from != went[who] {
			t.Errorf("conversation %d went to %s and goes to %s, %v", who, went[who], from, err)
		}
	}
}
