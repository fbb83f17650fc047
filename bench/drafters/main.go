// Drafters measures what drafts are worth on this machine: it serves a model without and with speculative decoding, side by side, sends both the same requests by
// turns, and prints the ratio of their tokens a second by kind of text and number of requests in flight. Only one of the servers is at work at a time, so that what
// else the machine does counts for both; the answers must be the same.
//
// On a machine that others keep busy, -cpu compares the CPU time that one thread takes in place of the time on the clock.
//
//	go run ./bench/drafters -ridge ./ridge -model demo -n 1,16 'draft={"model": "demo-draft"}' 'ngram={"method": "ngram"}'
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// server is a running ridge serve.
type server struct {
	name, url string
	pid       int
	stop      func()
}

// kind is a kind of text: requests to an endpoint.
type kind struct {
	name, path string
	tokens     int
	body       func(i int) map[string]any
}

func main() {
	ridge := flag.String("ridge", "./ridge", "the program")
	model := flag.String("model", "", "the model; default: the built-in one")
	flight := flag.String("n", "1,16", "requests in flight, with commas between them")
	cpu := flag.Bool("cpu", false, "one thread, and its CPU time in place of the time on the clock; Linux only")
	rounds := flag.Int("rounds", 3, "turns, of whose ratios the median is printed")
	flag.Parse()
	if err := run(*ridge, *model, *flight, *rounds, *cpu, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "drafters:", err)
		os.Exit(1)
	}
}

func run(ridge, model, flight string, rounds int, cpu bool, drafters []string) error {
	var numbers []int
	for part := range strings.SplitSeq(flight, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 || n > 64 {
			return fmt.Errorf("-n %q: numbers of 1 to 64 are possible", flight)
		}
		numbers = append(numbers, n)
	}
	if rounds < 1 || len(drafters) == 0 {
		return fmt.Errorf("%d rounds of %d drafters; give one at least, as NAME=JSON", rounds, len(drafters))
	}
	parallel := strconv.Itoa(slices.Max(numbers))
	var servers []*server
	defer func() {
		for _, s := range servers {
			s.stop()
		}
	}()
	for _, d := range append([]string{"off="}, drafters...) {
		name, config, ok := strings.Cut(d, "=")
		if !ok {
			return fmt.Errorf("%q: NAME=JSON is wanted", d)
		}
		args := []string{"serve", "--listen", "", "--data-dir", "off", "--max-num-seqs", parallel, "--deterministic", "--ctx", "1024"}
		if model != "" {
			args = append(args, "--model", model)
		}
		if cpu {
			args = append(args, "--threads", "1")
		}
		if config != "" {
			args = append(args, "--speculative-config", config)
		}
		s, err := start(ridge, name, args)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		servers = append(servers, s)
	}
	fmt.Printf("| text | in flight | off, tok/s |%s\n|---|---|---|%s\n", header(servers[1:]), strings.Repeat("---|", len(servers)-1))
	for _, k := range kinds() {
		for _, n := range numbers {
			if err := compare(servers, k, n, rounds, cpu); err != nil {
				return fmt.Errorf("%s, %d in flight: %w", k.name, n, err)
			}
		}
	}
	return nil
}

func header(servers []*server) (s string) {
	for _, x := range servers {
		s += " " + x.name + " |"
	}
	return s
}

// kinds are stories and answers about terms, code, words at random, and long answers.
func kinds() []kind {
	chat := func(tokens int) func(int) map[string]any {
		return func(i int) map[string]any {
			text := fmt.Sprintf("Tell me a story about a %s named %s", pick(i, "fox", "bear", "mouse", "dragon", "rabbit", "owl", "cat"), pick(i/2, "Pip", "Mia", "Tom", "Lily", "Max"))
			if i%2 == 1 {
				text = "What is " + pick(i/2, "a token", "a KV cache", "speculative decoding", "quantisation", "continuous batching", "prefill", "an embedding", "perplexity") + "?"
			}
			return map[string]any{"messages": []any{map[string]string{"role": "user", "content": text}}, "max_tokens": tokens, "ignore_eos": true}
		}
	}
	return []kind{
		{"chat", "/v1/chat/completions", 96, chat(96)},
		{"code", "/v1/completions", 96, func(i int) map[string]any {
			text := ""
			for k := range 6 {
				text += fmt.Sprintf("func get%c%d(m map[string]int) (int, error) {\n\tv, ok := m[\"%d\"]\n\tif !ok {\n\t\treturn 0, errors.New(\"no %d\")\n\t}\n\treturn v, nil\n}\n\n", 'A'+i%26, k, k, k)
			}
			return map[string]any{"prompt": text + "func get", "max_tokens": 96, "ignore_eos": true}
		}},
		{"random", "/v1/completions", 96, func(i int) map[string]any {
			random, text := rand.New(rand.NewPCG(uint64(i), 1)), ""
			for range 40 {
				text += string(rune('a'+random.IntN(26))) + strconv.Itoa(random.IntN(1000)) + " "
			}
			return map[string]any{"prompt": text, "max_tokens": 96, "temperature": 1.5, "seed": i, "ignore_eos": true}
		}},
		{"long", "/v1/chat/completions", 384, chat(384)},
	}
}

func pick(i int, all ...string) string { return all[i%len(all)] }

// compare prints a row: what n requests in flight take on each server, by turns.
func compare(servers []*server, k kind, n, rounds int, cpu bool) error {
	rates := make([][]float64, len(servers))
	order := make([]int, len(servers))
	for i := range order {
		order[i] = i
	}
	for round := range rounds + 1 {
		var want []string
		for _, i := range order {
			s := servers[i]
			texts, rate, err := s.load(k, n, round*max(n, requests), cpu)
			if err != nil {
				return err
			}
			if want == nil {
				want = texts
			}
			if !slices.Equal(texts, want) {
				return fmt.Errorf("answers of %s are not those of the server asked before", s.name)
			}
			if round > 0 { // the first warms up
				rates[i] = append(rates[i], rate)
			}
		}
		slices.Reverse(order) // forth and back: what changes evenly counts for all
	}
	fmt.Printf("| %s | %d | %.1f |", k.name, n, median(rates[0]))
	for i := range servers[1:] {
		var ratios []float64
		for round, rate := range rates[1+i] {
			ratios = append(ratios, rate/rates[0][round])
		}
		fmt.Printf(" %.2f |", median(ratios))
	}
	fmt.Println()
	return nil
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// requests is how many a load has at least: n at a time.
const requests = 16

// load sends requests of which n are in flight, the first of them number first, and returns the answers and how many tokens came a second, of CPU time if cpu is set.
func (s *server) load(k kind, n, first int, cpu bool) ([]string, float64, error) {
	count := max(n, requests)
	texts, failed := make([]string, count), make([]error, count)
	began, used := time.Now(), 0.0
	if cpu {
		used = s.cpuSeconds()
	}
	var all sync.WaitGroup
	var next atomic.Int32
	for range n {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < count; i = int(next.Add(1)) - 1 {
				texts[i], failed[i] = s.ask(k, first+i)
			}
		})
	}
	all.Wait()
	for _, err := range failed {
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	took := time.Since(began).Seconds()
	if cpu {
		took = s.cpuSeconds() - used
	}
	return texts, float64(count*k.tokens) / took, nil
}

// cpuSeconds is the CPU time that the server has used; NaN where /proc does not tell.
func (s *server) cpuSeconds() float64 {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.pid))
	if err != nil || len(threads) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		used, _, _ := strings.Cut(string(text), " ") // ns
		ns, _ := strconv.ParseFloat(used, 64)
		sum += ns / 1e9
	}
	return sum
}

// ask sends request i of a kind and returns the answer's text.
func (s *server) ask(k kind, i int) (string, error) {
	q := k.body(i)
	if q["temperature"] == nil {
		q["temperature"] = 0
	}
	body, err := json.Marshal(q)
	if err != nil {
		return "", err
	}
	r, err := http.Post(s.url+k.path, "application/json", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return "", err
	}
	var a struct {
		Choices []struct {
			Text    string
			Message struct{ Content string }
		}
		Usage struct {
			Output int `json:"completion_tokens"`
		}
	}
	if err := json.Unmarshal(text, &a); err != nil || len(a.Choices) != 1 || a.Usage.Output != k.tokens {
		return "", fmt.Errorf("status %d, %d tokens of %d: %s", r.StatusCode, a.Usage.Output, k.tokens, text)
	}
	return a.Choices[0].Text + a.Choices[0].Message.Content, nil
}

// start starts a server and waits until it has loaded its model. The argument after --listen is replaced by a free address.
func start(ridge, name string, args []string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	l.Close()
	args[slices.Index(args, "--listen")+1] = address
	ctx, interrupt := context.WithCancel(context.Background())
	process := exec.CommandContext(ctx, ridge, args...)
	process.Cancel = func() error { return process.Process.Signal(os.Interrupt) }
	var log bytes.Buffer
	process.Stderr = &log
	if err := process.Start(); err != nil {
		interrupt()
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = process.Wait() // what went wrong is in the log
		close(ended)
	}()
	s := &server{name, "http://" + address, process.Process.Pid, func() { interrupt(); <-ended }}
	for range 1200 {
		select {
		case <-ended:
			interrupt()
			return nil, fmt.Errorf("the server ended: %s", log.String())
		case <-time.After(100 * time.Millisecond):
		}
		if r, err := http.Get(s.url + "/health"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return s, nil
			}
		}
	}
	s.stop()
	return nil, fmt.Errorf("the server was not ready after two minutes: %s", log.String())
}
