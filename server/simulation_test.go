package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/server"
	"github.com/ridge-llm/ridge/server/store"
)

// The simulation of the server: clients that call, read slowly and leave at any byte, a slow device, reloads and stops, in virtual
// time, drawn from a seed. What is drawn is the same for a seed; in which order goroutines run at the same instant is not.
//
//	go test ./server -run Simulation -seed 7
var (
	simSeed  = flag.Int64("seed", -1, "the only seed to simulate")
	simSeeds = flag.Int64("seeds", 12, "how many seeds to simulate")
)

// TestSimulation: every request whose client stays is answered, whole, with what it gets alone or an error that says why; and nothing
// is left behind.
func TestSimulation(t *testing.T) {
	from, to := int64(0), *simSeeds
	if *simSeed >= 0 {
		from, to = *simSeed, *simSeed+1
	} else if testing.Short() {
		to = min(to, 4)
	}
	for seed := from; seed < to && !t.Failed(); seed++ {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			s := &simulated{t: t, seed: uint64(seed), rng: rand.New(rand.NewPCG(uint64(seed), 16)), dir: dir}
			s.run()
			if t.Failed() {
				t.Logf("again: go test ./server -run Simulation -seed %d", seed)
			}
		})
	}
}

// simulated is one seed's run.
type simulated struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand
	dir     string
	p       *pipes
	stopped context.Context // the server is to stop
	alone   map[string]string
}

var simPrompts = []string{"Once upon a time", "Once upon a time there was a fox", "What is a page table?", "The scheduler"}

func (s *simulated) fatal(err error) {
	if err != nil {
		s.t.Helper()
		s.t.Fatalf("seed %d: %v", s.seed, err)
	}
}

// load loads a model whose steps take a while, sometimes a long one.
func (s *simulated) load(o ridge.Options) *ridge.Model {
	m, err := ridge.Load("", o)
	s.fatal(err)
	rng := rand.New(rand.NewPCG(s.seed, 17))
	m.OnStep(func(ridge.Step) {
		d := time.Duration(rng.IntN(5)) * time.Millisecond
		if rng.IntN(50) == 0 {
			d = time.Duration(rng.IntN(5)) * time.Second
		}
		time.Sleep(d)
	})
	return m
}

func (s *simulated) run() {
	rng := s.rng
	o := ridge.Options{Threads: 1, Deterministic: true, Context: 128, Parallel: 1 + rng.IntN(4), MaxWaiting: 2 + rng.IntN(8)}
	if rng.IntN(2) == 0 {
		o.KV.Bytes = 3 << 20
	}
	st, err := store.Open(s.dir)
	s.fatal(err)
	defer st.Close()
	log := slog.New(slog.DiscardHandler)
	so := server.Options{Store: st, Log: log, Drain: time.Duration(1+rng.IntN(3000)) * time.Millisecond}
	m := s.load(o)
	first := server.New(m, so)
	s.findAlone(m)
	ctx, stop := context.WithCancel(s.t.Context())
	s.p, s.stopped = newPipes(), ctx
	front, returned := server.NewFront(log), make(chan error)
	go func() {
		returned <- front.ServeLoading(ctx, s.p, func() (*server.Server, error) { return first, nil }, func() {})
	}()
	synctest.Wait()
	var clients sync.WaitGroup
	for i := range 5 + rng.IntN(15) {
		one := rand.New(rand.NewPCG(s.seed, uint64(100+i)))
		clients.Go(func() { s.client(one) })
	}
	models, servers := []*ridge.Model{m}, []*server.Server{first}
	if rng.IntN(3) == 0 {
		time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
		again := s.load(o)
		first.Close()
		second := server.New(again, so)
		models, servers = append(models, again), append(servers, second)
		front.Replace(second)
	}
	if rng.IntN(3) > 0 {
		clients.Wait()
	} else {
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
	}
	stop()
	if err := <-returned; err != nil && !strings.Contains(err.Error(), "were cut off") {
		s.t.Errorf("seed %d: the server ended with %v", s.seed, err)
	}
	for i, m := range models {
		s.fatal(m.Drain(context.Background()))
		servers[i].Close()
		allReturned(s.t, m)
		s.fatal(m.Close())
	}
	clients.Wait()
}

// findAlone asks the model for what the prompts' answers are.
func (s *simulated) findAlone(m *ridge.Model) {
	s.alone = map[string]string{}
	for _, prompt := range simPrompts {
		p := m.Defaults()
		p.MaxTokens, p.Sampling.Temperature = 12, 0
		for piece, err := range m.Generate(context.Background(), prompt, p) {
			s.fatal(err)
			s.alone[prompt] += piece.Text
		}
	}
}

// client makes one call, as patient clients do or others.
func (s *simulated) client(rng *rand.Rand) {
	time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
	c, err := s.dial()
	if err != nil {
		return // it is closed
	}
	defer c.Close()
	prompt := simPrompts[rng.IntN(len(simPrompts))]
	path, body, check := "/v1/completions", fmt.Sprintf(`{"prompt": %q, "max_tokens": 12, "temperature": 0}`, prompt), s.checkText
	switch rng.IntN(6) {
	case 0:
		body, check = strings.Replace(body, "{", `{"stream": true, `, 1), s.checkStream
	case 1:
		path, body, check = "/v1/chat/completions", `{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5, "n": 3, "temperature": 0}`, s.checkChoices
	case 2:
		path, body, check = "/tokenize", `{"prompt": "Once"}`, s.checkAny
	case 3:
		body, check = body[:rng.IntN(len(body))], s.checkAny
	}
	text := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", path, len(body), body)
	if rng.IntN(5) == 0 { // it leaves before it has sent everything
		io.WriteString(c, text[:rng.IntN(len(text))])
		return
	}
	if _, err := io.WriteString(c, text); err != nil {
		s.broken("sending", err)
		return
	}
	leaves := -1
	if rng.IntN(4) == 0 {
		leaves = rng.IntN(400)
	}
	r, err := http.ReadResponse(bufio.NewReader(&reader{c, rng, leaves}), nil)
	if leaves >= 0 && err != nil {
		return
	}
	if err != nil {
		s.broken("reading the header of "+path, err)
		return
	}
	answer, err := io.ReadAll(r.Body)
	switch {
	case leaves >= 0:
	case err != nil:
		s.broken("reading the body of "+path, err)
	case r.StatusCode == http.StatusInternalServerError:
		s.t.Errorf("seed %d: %s: %d %s", s.seed, path, r.StatusCode, answer)
	case r.StatusCode == http.StatusOK:
		check(prompt, string(answer))
	case !json.Valid(answer):
		s.t.Errorf("seed %d: %s: %d with %q", s.seed, path, r.StatusCode, answer)
	}
}

func (s *simulated) dial() (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case s.p.incoming <- there:
		return here, nil
	case <-s.p.closed:
		return nil, net.ErrClosed
	}
}

// broken is a connection that ended before its answer: the server may do that to connections that it has not read from when it stops.
func (s *simulated) broken(doing string, err error) {
	if s.stopped.Err() == nil {
		s.t.Errorf("seed %d: %s: %v", s.seed, doing, err)
	}
}

func (s *simulated) checkAny(string, string) {}

func (s *simulated) checkText(prompt, answer string) {
	var a struct{ Choices []struct{ Text string } }
	if err := json.Unmarshal([]byte(answer), &a); err != nil || len(a.Choices) != 1 || a.Choices[0].Text != s.alone[prompt] {
		s.t.Errorf("seed %d: %q is answered with %s; alone with %q", s.seed, prompt, answer, s.alone[prompt])
	}
}

// checkChoices: there are three answers, whole and alike.
func (s *simulated) checkChoices(_, answer string) {
	var a struct {
		Choices []struct {
			Message      struct{ Content string }
			FinishReason string `json:"finish_reason"`
		}
	}
	err := json.Unmarshal([]byte(answer), &a)
	if err != nil || len(a.Choices) != 3 {
		s.t.Errorf("seed %d: three answers are %s", s.seed, answer)
		return
	}
	for _, c := range a.Choices {
		if c.FinishReason == "" || c.Message.Content == "" || c.Message.Content != a.Choices[0].Message.Content {
			s.t.Errorf("seed %d: three answers are %s", s.seed, answer)
		}
	}
}

// checkStream: a stream is whole, or ends with an error that says why.
func (s *simulated) checkStream(prompt, answer string) {
	text, failed := "", false
	for line := range strings.Lines(answer) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		var event struct {
			Choices []struct{ Text string }
			Error   *struct{ Code string }
		}
		if !ok || json.Unmarshal([]byte(data), &event) != nil {
			continue
		}
		for _, c := range event.Choices {
			text += c.Text
		}
		failed = failed || event.Error != nil
	}
	switch {
	case !strings.HasSuffix(answer, "data: [DONE]\n\n"):
		s.t.Errorf("seed %d: a stream ends with %q", s.seed, answer[max(0, len(answer)-100):])
	case failed && s.stopped.Err() == nil, failed && !strings.HasPrefix(s.alone[prompt], text), !failed && text != s.alone[prompt]:
		s.t.Errorf("seed %d: %q is streamed as %q, with an error: %t; alone it is %q", s.seed, prompt, text, failed, s.alone[prompt])
	}
}

// reader reads in small pieces, sometimes slowly, and leaves after some bytes, if any are given.
type reader struct {
	net.Conn
	rng    *rand.Rand
	leaves int // -1: never
}

var errLeft = errors.New("the client has left")

func (r *reader) Read(b []byte) (int, error) {
	if r.leaves == 0 {
		r.Conn.Close()
		return 0, errLeft
	}
	if r.rng.IntN(20) == 0 {
		time.Sleep(time.Duration(r.rng.IntN(3000)) * time.Millisecond)
	}
	n := min(len(b), 1+r.rng.IntN(200))
	if r.leaves > 0 {
		n = min(n, r.leaves)
	}
	n, err := r.Conn.Read(b[:n])
	if r.leaves > 0 {
		r.leaves -= n
	}
	return n, err
}
