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
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

const (
	attackers = 2                      // clients that send hostile requests, each again and again
	observers = 4                      // clients that stream answers beside them
	settle    = 300 * time.Millisecond // after a change of what is sent, which belongs to neither side
	fewest    = 50                     // gaps that a percentile is taken of
)

// neighbours measures the time between the events of streams beside hostile requests and beside as many plain ones, by turns: two slots beside plain requests
// enclose each hostile one, and the ratio of a round is the hostile slot's p99 over the mean of theirs. What is printed is the median of the rounds, since another
// process on the machine spoils single ones. The ratio of one plain slot to the next is the noise.
func (s *soak) neighbours(ctx context.Context) error {
	server, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	only, err := regexp.Compile(s.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	kinds := slices.DeleteFunc(slices.Clone(hostiles), func(h hostile) bool { return !only.MatchString(h.name) })
	watch, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	var seen gaps
	for range observers {
		all.Go(func() { s.observe(watch, &seen) })
	}
	results := make([]result, len(kinds))
	for round := range s.rounds {
		for i, h := range kinds {
			before, err := s.slot(ctx, &seen, plain)
			if err != nil {
				return err
			}
			beside, err := s.slot(ctx, &seen, h)
			if err != nil {
				return err
			}
			after, err := s.slot(ctx, &seen, plain)
			if err != nil {
				return err
			}
			if min(before.gaps, beside.gaps, after.gaps) < fewest {
				fmt.Fprintf(os.Stderr, "soak: beside %s there were %d gaps, and %d and %d beside plain requests; the round does not count\n", h.name, beside.gaps, before.gaps, after.gaps)
				continue
			}
			ratio := results[i].add(before, beside, after)
			fmt.Fprintf(os.Stderr, "round %d of %d, beside %s: p99 %v, %.2f times that beside plain requests\n", round+1, s.rounds, h.name, beside.p99, ratio)
		}
	}
	return report(kinds, results)
}

// gaps are the times between the events of streams, as they come.
type gaps struct {
	mu  sync.Mutex
	all []time.Duration
}

func (g *gaps) put(gap time.Duration) {
	g.mu.Lock()
	g.all = append(g.all, gap)
	g.mu.Unlock()
}

// take returns what came since the last call, in order of size.
func (g *gaps) take() []time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.all
	g.all = nil
	slices.Sort(all)
	return all
}

// slot is what was seen in a time of sending one kind of requests.
type slot struct {
	gaps                  int
	p50, p99, steps, host time.Duration // of gaps; of the server's steps, and of them without work for the device, p99
	answers               map[string]int
}

// slot sends requests of one kind for a while.
func (s *soak) slot(ctx context.Context, seen *gaps, h hostile) (slot, error) {
	template, err := h.text()
	if err != nil {
		return slot{}, err
	}
	run, stop := context.WithTimeout(ctx, settle+s.length)
	defer stop()
	var all sync.WaitGroup
	var mu sync.Mutex
	x := slot{answers: map[string]int{}}
	for range attackers {
		all.Go(func() {
			for run.Err() == nil {
				status := s.annoy(run, h.path, next(template), h.slow)
				mu.Lock()
				x.answers[status]++
				mu.Unlock()
			}
		})
	}
	time.Sleep(settle)
	seen.take()
	<-run.Done()
	gaps := seen.take()
	all.Wait()
	if x.gaps = len(gaps); x.gaps < fewest {
		return x, nil
	}
	x.p50, x.p99 = gaps[len(gaps)/2], gaps[len(gaps)*99/100]
	x.steps, x.host, err = s.lastSteps(ctx)
	return x, err
}

// lastSteps are the 99th percentiles of the server's latest steps: what they took, and what of it the host had alone.
func (s *soak) lastSteps(ctx context.Context) (took, host time.Duration, err error) {
	r, err := get(ctx, s.url+"/steps?n=512")
	if err != nil {
		return 0, 0, err
	}
	defer r.Body.Close()
	var list struct {
		Steps []struct {
			Actual time.Duration `json:"actual_ns"`
			Host   time.Duration `json:"host_ns"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&list); err != nil || len(list.Steps) == 0 {
		return 0, 0, err
	}
	var all, hosts []time.Duration
	for _, x := range list.Steps {
		all, hosts = append(all, x.Actual), append(hosts, x.Host)
	}
	slices.Sort(all)
	slices.Sort(hosts)
	return all[len(all)*99/100], hosts[len(hosts)*99/100], nil
}

// result is what the rounds with one kind of hostile requests came to.
type result struct {
	ratios, noise    []float64
	p50s, p99s       []time.Duration // beside the hostile requests
	base50s, base99s []time.Duration // beside the plain ones
	steps, host      []time.Duration
	answers          map[string]int
}

// add takes a round in. It returns its ratio.
func (r *result) add(before, beside, after slot) (ratio float64) {
	base := (before.p99 + after.p99) / 2
	ratio = beside.p99.Seconds() / base.Seconds()
	r.ratios = append(r.ratios, ratio)
	r.noise = append(r.noise, max(before.p99, after.p99).Seconds()/min(before.p99, after.p99).Seconds())
	r.p50s, r.p99s = append(r.p50s, beside.p50), append(r.p99s, beside.p99)
	r.base50s, r.base99s = append(r.base50s, (before.p50+after.p50)/2), append(r.base99s, base)
	r.steps, r.host = append(r.steps, beside.steps), append(r.host, beside.host)
	if r.answers == nil {
		r.answers = map[string]int{}
	}
	for status, n := range beside.answers {
		r.answers[status] += n
	}
	return ratio
}

func report(kinds []hostile, results []result) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "beside\tp50\tp99\tplain p50\tp99\tratio\t(rounds)\tsteps p99\thost p99\tanswers\t")
	ms := func(d []time.Duration) string { return fmt.Sprintf("%.2f", median(d).Seconds()*1e3) }
	var noise []float64
	for i, r := range results {
		if len(r.ratios) == 0 {
			return fmt.Errorf("beside %s no round counts; measure for longer (-for)", kinds[i].name)
		}
		noise = append(noise, r.noise...)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.2f\t%.1f\t%s\t%s\t%v\t\n", kinds[i].name, ms(r.p50s), ms(r.p99s), ms(r.base50s), ms(r.base99s), median(r.ratios), r.ratios, ms(r.steps), ms(r.host), r.answers)
	}
	if err := w.Flush(); err != nil || len(noise) == 0 {
		return err
	}
	slices.Sort(noise)
	fmt.Printf("milliseconds, medians of the rounds. Noise: of two slots beside plain requests the slower p99 is %.2f times the other's in the median, %.2f in a tenth of the rounds.\n", median(noise), noise[len(noise)*9/10])
	return nil
}

func median[T int | float64 | time.Duration](list []T) T {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// observe streams answers until ctx is done and notes the times between their events.
func (s *soak) observe(ctx context.Context, seen *gaps) {
	body, err := json.Marshal(object{"prompt": "Once upon a time", "max_tokens": 1500, "ignore_eos": true, "stream": true}) // so many that few have to wait for a place in a slot
	for err == nil && ctx.Err() == nil {
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
				seen.put(now.Sub(last))
			}
			last = now
		}
		r.Body.Close()
	}
}

// annoy makes one hostile request and returns its status.
func (s *soak) annoy(ctx context.Context, path string, body []byte, slow bool) string {
	r, err := s.post(ctx, path, body)
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
