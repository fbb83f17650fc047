// Soak keeps a server saturated for hours and says whether its memory stays flat:
//
//	go run ./bench/soak -ridge ./ridge -for 1h -samples soak.csv -- --lora sql=adapter
//
// It starts ridge serve with the settings after --, and runs clients that each make one call after another: answers short and long, streamed
// and whole, grammars, tools, several choices, embeddings, batches, every API, requests that are refused, clients that read slowly and that leave.
// Every few seconds it reads resident memory, heap, goroutines, descriptors and pages from /metrics into a CSV file. It fails if an answer is not
// what its request asks for, if the server ends, if the median of memory in the last third is over 3 % more than in the middle third, or if anything is
// left when the clients are gone.
//
//	go run ./bench/soak -ridge ./ridge -neighbours -for 2s
//
// measures the time between the tokens of streams beside each kind of hostile request, by turns with plain ones.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"
)

func main() {
	s := &soak{counts: map[string]int{}}
	flag.StringVar(&s.ridge, "ridge", "ridge", "the program")
	flag.StringVar(&s.model, "m", "", "model to serve; default: the built-in one")
	flag.IntVar(&s.clients, "clients", 48, "clients at once")
	flag.DurationVar(&s.length, "for", time.Hour, "how long the clients call")
	flag.DurationVar(&s.every, "every", 10*time.Second, "time between samples")
	flag.StringVar(&s.samplesFile, "samples", "soak.csv", "file for the samples")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of what the clients do")
	neighbours := flag.Bool("neighbours", false, "measure the time between tokens beside each kind of hostile request instead, for so long (-for) in each slot")
	flag.StringVar(&s.only, "only", "", "with -neighbours: a regular expression for the names of the hostile requests; default: all")
	flag.IntVar(&s.rounds, "rounds", 5, "with -neighbours: how often each is measured; medians are reported")
	flag.Parse()
	s.settings = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := s.run
	if *neighbours {
		run = s.neighbours
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// soak is one run: what was asked for, and what has happened so far.
type soak struct {
	ridge, model, samplesFile string
	settings                  []string
	clients                   int
	length, every             time.Duration
	seed                      uint64
	only                      string // of the hostile requests
	rounds                    int

	url    string
	models []string // names that requests may use: the model and its adapters

	mu       sync.Mutex
	counts   map[string]int // calls, by what they were and how they ended
	failures []string
}

// most is how many failures are kept; a soak with more has gone wrong as a whole.
const most = 20

func (s *soak) run(ctx context.Context) error {
	server, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	if s.models, err = listModels(ctx, s.url); err != nil {
		return err
	}
	before, err := s.sample(ctx, 0)
	if err != nil {
		return err
	}
	samples, err := s.load(ctx, server)
	s.report(samples)
	if err != nil {
		return err
	}
	if err := s.nothingLeft(before); err != nil {
		return err
	}
	if len(s.failures) > 0 {
		return fmt.Errorf("%d calls failed, the first: %s", len(s.failures), s.failures[0])
	}
	return flat(samples)
}

// load runs the clients, and samples the server meanwhile.
func (s *soak) load(ctx context.Context, server *process) (samples []sample, err error) {
	file, err := os.Create(s.samplesFile)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	fmt.Fprintln(file, header)
	ctx, stop := context.WithTimeout(ctx, s.length)
	defer stop()
	var clients sync.WaitGroup
	for i := range s.clients {
		clients.Go(func() { s.client(ctx, i) })
	}
	began := time.Now()
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-server.ended:
			stop()
			err = fmt.Errorf("the server ended after %v; its log is %s", time.Since(began).Round(time.Second), server.log)
		case <-tick.C:
			x, failed := s.sample(ctx, time.Since(began))
			if failed != nil && ctx.Err() != nil {
				continue // the time was over before the answer came
			}
			if failed != nil {
				s.failed(fmt.Sprintf("reading /metrics after %v: %v", time.Since(began).Round(time.Second), failed))
				continue
			}
			samples = append(samples, x)
			fmt.Fprintln(file, x)
		}
	}
	clients.Wait()
	return samples, err
}

func (s *soak) failed(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.failures) < most {
		s.failures = append(s.failures, what)
		fmt.Fprintln(os.Stderr, "soak:", what)
	}
}

func (s *soak) count(what string) {
	s.mu.Lock()
	s.counts[what]++
	s.mu.Unlock()
}
