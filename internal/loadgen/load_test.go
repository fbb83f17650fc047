package loadgen_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ridge-llm/ridge/internal/loadgen"
	"github.com/ridge-llm/ridge/internal/trace"
)

// fake is a server whose tokens are words. It answers with one token every gap, or fails as fail says.
type fake struct {
	*httptest.Server
	gap  time.Duration
	fail func(prompt string) string // "": not
	deaf bool                       // knows no /tokenize

	mu      sync.Mutex
	prompts []string
	now     int // under way
	most    int
}

func newFake(t *testing.T, gap time.Duration) *fake {
	f := &fake{gap: gap, fail: func(string) string { return "" }}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data": [{"id": "words", "max_model_len": 2000}]}`)
	})
	mux.HandleFunc("POST /tokenize", f.tokenize)
	mux.HandleFunc("POST /v1/completions", f.complete)
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	return f
}

// count is how many tokens a text has: its words, those that begin with w twice, and BOS.
func count(text string) int {
	n := 1
	for _, word := range strings.Fields(text) {
		if n++; word[0] == 'w' {
			n++
		}
	}
	return n
}

func (f *fake) tokenize(w http.ResponseWriter, r *http.Request) {
	var q struct{ Prompt string }
	if f.deaf || json.NewDecoder(r.Body).Decode(&q) != nil {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"tokens": make([]int, count(q.Prompt))})
}

func (f *fake) complete(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model, Prompt string
		MaxTokens     int `json:"max_tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.Model != "words" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	f.prompts = append(f.prompts, q.Prompt)
	f.now++
	f.most = max(f.most, f.now)
	f.mu.Unlock()
	defer func() { f.mu.Lock(); f.now--; f.mu.Unlock() }()
	flush := w.(http.Flusher).Flush
	why := f.fail(q.Prompt)
	switch why {
	case "slow":
		<-r.Context().Done() // until the client gives up
		return
	case "busy":
		http.Error(w, "come back later", http.StatusTooManyRequests)
		return
	}
	for range q.MaxTokens {
		fmt.Fprint(w, "data: {\"choices\": [{\"text\": \" so\"}]}\n\n")
		flush()
		time.Sleep(f.gap)
		switch why {
		case "break":
			panic(http.ErrAbortHandler)
		case "error":
			fmt.Fprint(w, "data: {\"error\": {\"message\": \"out of luck\"}}\n\n")
			return
		case "cut":
			return
		}
	}
	fmt.Fprint(w, "data: {\"choices\": [{\"text\": \"\", \"finish_reason\": \"length\"}]}\n\n")
	fmt.Fprintf(w, "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": %d, \"completion_tokens\": %d, \"prompt_tokens_details\": {\"cached_tokens\": 3}}}\n\ndata: [DONE]\n\n", count(q.Prompt), q.MaxTokens)
}

func run(t *testing.T, f *fake, line string, change func(*loadgen.Options)) *loadgen.Report {
	t.Helper()
	tr, err := trace.Load(line)
	if err != nil {
		t.Fatal(err)
	}
	o := loadgen.Options{URL: f.URL + "/v1/", Trace: tr, Timeout: time.Minute}
	if change != nil {
		change(&o)
	}
	r, err := loadgen.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOpen: requests go out at their time although none is answered, prompts have the length asked for, and what is
// measured is what the server did.
func TestOpen(t *testing.T) {
	f := newFake(t, 20*time.Millisecond)
	// No request is answered before all 20 have come, but for the warm-up.
	var here sync.WaitGroup
	here.Add(20)
	first := true
	var mu sync.Mutex
	f.fail = func(string) string {
		mu.Lock()
		warming := first
		first = false
		mu.Unlock()
		if !warming {
			here.Done()
			here.Wait()
		}
		return ""
	}
	r := run(t, f, "constant:rate=200,n=20,in=40,out=10", func(o *loadgen.Options) { o.SLO, _ = loadgen.ParseSLO("ttft=50s,itl=51s,e2e=52s") })
	if r.Completed != 20 || r.Lost() != 0 || r.Input != 20*40 || r.Output != 200 || r.Cached != 60 || r.Short != 0 || r.Model != "words" {
		t.Errorf("%+v", r)
	}
	// The last is sent after 95 ms, and 10 tokens take 200. A reader that gets no processor finds several tokens at once: of
	// the gaps between them the longest alone is certain.
	if r.ITL.Max <= 0 || r.ITL.Max < r.TPOT.Max || r.E2E.P50 < 200 || r.TTFT.P50 > r.E2E.P50 || r.Seconds < 0.29 {
		t.Errorf("ITL %v TPOT %v E2E %v TTFT %v, %v s", r.ITL, r.TPOT, r.E2E, r.TTFT, r.Seconds)
	}
	if r.Goodput == nil || r.Goodput.Met != 20 || r.Goodput.SLO != "ttft=50s,itl=51s,e2e=52s" {
		t.Errorf("goodput %+v", r.Goodput)
	}
}

// TestClosed: as many requests are under way as were asked for, and no more.
func TestClosed(t *testing.T) {
	f := newFake(t, 5*time.Millisecond)
	if r := run(t, f, "constant:rate=1,n=20,in=8,out=4", func(o *loadgen.Options) { o.Concurrency = 4 }); r.Completed != 20 || f.most != 4 || r.Seconds > 15 {
		t.Errorf("%d answered in %.1f s, %d at once", r.Completed, r.Seconds, f.most)
	}
}

// TestFailures: every request that fails is counted under what befell it.
func TestFailures(t *testing.T) {
	f := newFake(t, 0)
	kinds := []string{"", "busy", "break", "error", "cut", "slow"}
	var mu sync.Mutex
	calls := 0
	f.fail = func(string) string {
		mu.Lock()
		defer mu.Unlock()
		calls++
		if calls == 1 {
			return "" // the warm-up
		}
		why := kinds[calls%len(kinds)]
		return why
	}
	r := run(t, f, "constant:rate=1000,n=6,in=8,out=2", func(o *loadgen.Options) { o.Concurrency, o.Timeout = 1, 3*time.Second })
	want := map[string]int{"status 429": 1, "connection broken": 1, "error in the stream": 1, "cut short": 1, "timed out": 1}
	if diff := cmp.Diff(want, r.Errors); diff != "" || r.Completed != 1 || r.Lost() != 5 || r.Example == "" {
		t.Errorf("%d answered (-want +got):\n%s", r.Completed, diff)
	}
	f.Close()
	_, err := loadgen.Run(context.Background(), loadgen.Options{URL: f.URL, Trace: &trace.Trace{Requests: make([]trace.Request, 1)}, Timeout: time.Second})
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("a server that is not there: %v", err)
	}
}

// TestPrompts: blocks of one ID are the same text, others are not; a shared prefix is shared.
func TestPrompts(t *testing.T) {
	f := newFake(t, 0)
	run(t, f, "../trace/testdata/mooncake.jsonl", func(o *loadgen.Options) { o.Concurrency = 1 })
	common := func(a, b string) int {
		x, y, n := strings.Fields(a), strings.Fields(b), 0
		for n < min(len(x), len(y)) && x[n] == y[n] {
			n++
		}
		return n
	}
	moon := f.prompts[len(f.prompts)-3:] // of 1100, 3 and 1030 tokens; the first and the last share two blocks
	if n := common(moon[0], moon[2]); n < 1023 || n > 1026 || count(moon[2]) != 1030 {
		t.Errorf("%d words in common, %d tokens", n, count(moon[2]))
	}
	run(t, f, "constant:n=2,in=200,shared=150", func(o *loadgen.Options) { o.Concurrency, o.Seed = 1, 1 })
	last := f.prompts[len(f.prompts)-2:]
	if n := common(last[0], last[1]); n < 149 || n > 152 || common(last[0], moon[0]) > 3 {
		t.Errorf("%d words in common", n)
	}
}

// TestWithoutTokenizer: a server that cannot tokenize is measured by its usage.
func TestWithoutTokenizer(t *testing.T) {
	f := newFake(t, 0)
	f.deaf = true
	note := ""
	r := run(t, f, "constant:rate=1000,n=4,in=500,out=2", func(o *loadgen.Options) {
		o.Note = func(format string, args ...any) { note += fmt.Sprintf(format, args...) }
	})
	if mean := r.Input / 4; mean < 470 || mean > 530 || !strings.Contains(note, "cannot tokenize") {
		t.Errorf("%d tokens on average; %s", mean, note)
	}
}

// TestContext: requests that the model has no room for are cut, and the user is told.
func TestContext(t *testing.T) {
	f := newFake(t, 0)
	note := ""
	r := run(t, f, "constant:rate=1000,n=2,in=5000,out=7", func(o *loadgen.Options) {
		o.Note = func(format string, args ...any) { note += fmt.Sprintf(format, args...) }
	})
	if r.Input != 2*1993 || r.Output != 14 || !strings.HasPrefix(note, "2 of 2 requests are cut to the model's context of 2000 tokens") {
		t.Errorf("%d and %d tokens; %s", r.Input, r.Output, note)
	}
}

// TestStopped: a run that is stopped reports what came until then.
func TestStopped(t *testing.T) {
	f := newFake(t, 0)
	ctx, cancel := context.WithCancel(context.Background())
	f.fail = func(string) string {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.prompts) > 3 {
			cancel()
		}
		return ""
	}
	tr, err := trace.Load("constant:rate=20,n=1000,in=5,out=1")
	if err != nil {
		t.Fatal(err)
	}
	r, err := loadgen.Run(ctx, loadgen.Options{URL: f.URL, Trace: tr, Timeout: time.Second})
	if err != nil || r.Completed < 2 || r.Unsent < 900 || r.Completed+r.Unsent+r.Lost() != 1000 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestSLO(t *testing.T) {
	s, err := loadgen.ParseSLO("ttft=1s,itl=50ms")
	if err != nil || s != (loadgen.SLO{TTFT: time.Second, ITL: 50 * time.Millisecond}) || s.String() != "ttft=1s,itl=50ms" {
		t.Errorf("%v %v", s, err)
	}
	for _, bad := range []string{"", "ttft", "ttft=1", "speed=1s", "itl=-5ms", "itl=5ms,"} {
		if _, err := loadgen.ParseSLO(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
