// Agents sends the conversations of internal/testkit/agents to a server, each going on from what it was answered, in token ids (vLLM's return_token_ids), and prints what
// part of the prompts was cached and the time to the first token (TTFT).
//
//	go run ./bench/agents -url http://127.0.0.1:8080 -conversations 20 -turns 6 -concurrency 8
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ridge-llm/ridge/internal/testkit/agents"
)

func main() {
	var b bench
	flag.StringVar(&b.url, "url", "http://127.0.0.1:8080", "the server")
	flag.StringVar(&b.model, "model", "", "model to ask for; default: the server's first")
	conversations := flag.Int("conversations", 20, "conversations")
	turns := flag.Int("turns", 6, "requests of each, in the mean")
	concurrency := flag.Int("concurrency", 8, "requests at once")
	vocab := flag.Int("vocab", 30000, "ids of prompts are below this")
	flag.Parse()
	if *conversations < 1 || *turns < 1 || *concurrency < 1 || *vocab < 1 {
		fmt.Fprintln(os.Stderr, "agents: -conversations, -turns, -concurrency and -vocab are 1 at least")
		os.Exit(2)
	}
	shared, steps := agents.Steps(*conversations, *turns, int32(*vocab))
	if err := b.run(agents.Begin(*conversations, shared), steps, *conversations, *concurrency); err != nil {
		fmt.Fprintln(os.Stderr, "agents:", err)
		os.Exit(1)
	}
}

// bench is a run.
type bench struct {
	url, model string
	mu         sync.Mutex // guards all below
	ttft       []time.Duration
	prompt     int // tokens
	cached     int // of them
	answered   int // tokens
	err        error
}

// run sends all steps in order, so many at once; one waits for the one before of its conversation.
func (b *bench) run(c *agents.Conversations, steps []agents.Step, conversations, concurrency int) error {
	start := time.Now()
	before := make([]chan struct{}, conversations) // closed when the conversation's last step was answered
	for i := range before {
		before[i] = make(chan struct{})
		close(before[i])
	}
	slots := make(chan struct{}, concurrency)
	var all sync.WaitGroup
	for i := range steps {
		s := &steps[i]
		wait, done := before[s.Conversation], make(chan struct{})
		before[s.Conversation] = done
		slots <- struct{}{}
		all.Go(func() {
			defer func() { close(done); <-slots }()
			<-wait
			b.mu.Lock()
			if b.err != nil {
				b.mu.Unlock()
				return
			}
			prompt := c.Ask(s)
			b.mu.Unlock()
			answer, err := b.ask(prompt, len(s.Answer))
			b.mu.Lock()
			defer b.mu.Unlock()
			c.Answered(s, answer)
			b.err = cmp.Or(b.err, err)
		})
	}
	all.Wait()
	if b.err != nil {
		return b.err
	}
	slices.Sort(b.ttft)
	var sum time.Duration
	for _, t := range b.ttft {
		sum += t
	}
	n := len(b.ttft)
	fmt.Printf("%d requests, %d tokens of prompts, %.3f of them cached, %d of answers, in %.1f s; TTFT mean %.1f ms, median %.1f, p90 %.1f\n", n, b.prompt, float64(b.cached)/float64(b.prompt), b.answered,
		time.Since(start).Seconds(), ms(sum/time.Duration(n)), ms(b.ttft[n/2]), ms(b.ttft[n*9/10]))
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// ask has a prompt answered in so many tokens.
func (b *bench) ask(prompt []int32, tokens int) (answer []int32, err error) {
	body := map[string]any{"prompt": prompt, "max_tokens": tokens, "ignore_eos": true, "temperature": 0, "stream": true, "stream_options": map[string]any{"include_usage": true}, "return_token_ids": true}
	if b.model != "" {
		body["model"] = b.model
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	r, err := http.Post(b.url+"/v1/completions", "application/json", bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(r.Body, 1000))
		return nil, fmt.Errorf("%s: %s", r.Status, text)
	}
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || text == "[DONE]" {
			continue
		}
		var event struct {
			Choices []struct {
				IDs []int32 `json:"token_ids"`
			}
			Usage *struct {
				Prompt  int `json:"prompt_tokens"`
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
			Error *struct{ Message string }
		}
		if err := json.Unmarshal([]byte(text), &event); err != nil {
			return nil, fmt.Errorf("event %q: %w", text, err)
		}
		if event.Error != nil {
			return nil, fmt.Errorf("the answer ended: %s", event.Error.Message)
		}
		for _, c := range event.Choices {
			if len(answer) == 0 && len(c.IDs) > 0 {
				b.first(time.Since(start))
			}
			answer = append(answer, c.IDs...)
		}
		if event.Usage != nil {
			b.count(event.Usage.Prompt, event.Usage.Details.Cached, len(answer))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(answer) != tokens {
		return nil, fmt.Errorf("an answer has %d token ids, %d were asked for", len(answer), tokens)
	}
	return answer, nil
}

// first is told the time until an answer's first token.
func (b *bench) first(after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ttft = append(b.ttft, after)
}

// count is told the tokens of a request that was answered.
func (b *bench) count(prompt, cached, answered int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.prompt, b.cached, b.answered = b.prompt+prompt, b.cached+cached, b.answered+answered
}
