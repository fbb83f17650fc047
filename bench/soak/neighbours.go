package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// hostile are requests that are as costly as one can be, of one kind each. Each is sent by two clients, again and again.
var hostile = []struct {
	name, path string
	body       func() object
	slow       bool // the client hardly reads
}{
	{name: "nothing"},
	{"a plain request", "/v1/completions", func() object { return object{"prompt": "Once", "max_tokens": 60} }, false},
	{"a grammar that explodes", "/v1/chat/completions", func() object {
		return chatWith(object{"guided_regex": "(a|b)*a(a|b){40,4000}" + unique()})
	}, false},
	{"a schema of 2,000 fields", "/v1/chat/completions", func() object {
		fields := object{}
		for i := range 2000 {
			fields[fmt.Sprint("field", i, unique())] = object{"type": "string", "pattern": "^[a-z]{1,20}$"}
		}
		return chatWith(object{"response_format": object{"type": "json_schema", "json_schema": object{"name": "x", "schema": object{"type": "object", "properties": fields}}}})
	}, false},
	{"a prompt of 100,000 tokens", "/v1/completions", func() object {
		return object{"prompt": strings.Repeat("page table ", 50_000) + unique(), "max_tokens": 4}
	}, false},
	{"a prompt of the whole context", "/v1/completions", func() object {
		return object{"prompt": unique() + strings.Repeat(" the fox", 950), "max_tokens": 4}
	}, false},
	{"128 answers", "/v1/completions", func() object { return object{"prompt": unique(), "max_tokens": 40, "n": 128} }, false},
	{"10,000 stop strings", "/v1/completions", func() object {
		var stops []string
		for i := range 10_000 {
			stops = append(stops, fmt.Sprint("stop", i))
		}
		return object{"prompt": "Once", "max_tokens": 60, "stop": stops}
	}, false},
	{"biases of 100,000 tokens", "/v1/completions", func() object {
		bias := object{}
		for i := range 100_000 {
			bias[fmt.Sprint(i)] = 0.5
		}
		return object{"prompt": "Once", "max_tokens": 60, "logit_bias": bias}
	}, false},
	{"20 log-probabilities a token", "/v1/chat/completions", func() object { return chatWith(object{"logprobs": true, "top_logprobs": 20}) }, false},
	{"JSON nested 100,000 deep", "/v1/chat/completions", func() object {
		return chatWith(object{"chat_template_kwargs": json.RawMessage(strings.Repeat("[", 9000) + strings.Repeat("]", 9000))})
	}, false},
	{"a reader of one byte a second", "/v1/completions", func() object { return object{"prompt": "Once", "max_tokens": 400, "stream": true, "ignore_eos": true} }, true},
}

func chatWith(more object) object {
	return with(object{"messages": []object{{"role": "user", "content": "Hello " + unique()}}, "max_tokens": 60}, more)
}

// unique is a text that is another each time, so that nothing is cached.
func unique() string { return fmt.Sprint("n", time.Now().UnixNano()) }

// hostiles is how many clients send hostile requests, and observers how many stream answers beside them.
const (
	hostiles  = 2
	observers = 4
)

// neighbours measures the time between the events of streams beside hostile requests, for a time each, and prints it beside that next to nothing and
// next to plain requests. Two of the eight places being taken, steps are larger in any case: the plain requests are what to compare with.
func (s *soak) neighbours(ctx context.Context) error {
	server, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "beside\tgaps\tp50\tp99\tmost\tof plain's p99\thostile requests\t")
	plain := time.Duration(0)
	for _, h := range hostile {
		run, stop := context.WithTimeout(ctx, s.length)
		var all sync.WaitGroup
		var mu sync.Mutex
		var gaps []time.Duration
		sent := map[string]int{}
		for range observers {
			all.Go(func() {
				mine := s.observe(run)
				mu.Lock()
				gaps = append(gaps, mine...)
				mu.Unlock()
			})
		}
		for range hostiles {
			all.Go(func() {
				for h.body != nil && run.Err() == nil {
					status := s.annoy(run, h.path, h.body(), h.slow)
					mu.Lock()
					sent[status]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		stop()
		if len(gaps) < 100 {
			return fmt.Errorf("beside %s there were %d gaps only; measure for longer (-for)", h.name, len(gaps))
		}
		slices.Sort(gaps)
		p99 := gaps[len(gaps)*99/100]
		if h.name == "a plain request" {
			plain = p99
		}
		ratio := "-"
		if plain > 0 {
			ratio = fmt.Sprintf("%.2f", float64(p99)/float64(plain))
		}
		fmt.Fprintf(w, "%s\t%d\t%v\t%v\t%v\t%s\t%v\t\n", h.name, len(gaps), gaps[len(gaps)/2].Round(10*time.Microsecond), p99.Round(10*time.Microsecond), gaps[len(gaps)-1].Round(10*time.Microsecond), ratio, sent)
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// observe streams answers until ctx is done and returns the times between their events.
func (s *soak) observe(ctx context.Context) (gaps []time.Duration) {
	for ctx.Err() == nil {
		body, err := json.Marshal(object{"prompt": "Once upon a time", "max_tokens": 200, "ignore_eos": true, "stream": true})
		if err != nil {
			return gaps
		}
		r, err := s.post(ctx, "/v1/completions", body)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(r.Body)
		last := time.Time{}
		for lines.Scan() {
			if !strings.HasPrefix(lines.Text(), "data: {") {
				continue
			}
			now := time.Now()
			if !last.IsZero() {
				gaps = append(gaps, now.Sub(last))
			}
			last = now
		}
		r.Body.Close()
	}
	return gaps
}

// annoy makes one hostile request and returns its status.
func (s *soak) annoy(ctx context.Context, path string, body object, slow bool) string {
	text, err := json.Marshal(body)
	if err != nil {
		return err.Error()
	}
	r, err := s.post(ctx, path, text)
	if err != nil {
		return "cut off"
	}
	defer r.Body.Close()
	for b := make([]byte, 1); slow && ctx.Err() == nil; time.Sleep(time.Second) {
		if _, err := r.Body.Read(b); err != nil {
			return "disconnected"
		}
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return "cut off"
	}
	return r.Status
}

func (s *soak) post(ctx context.Context, path string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(r)
}
