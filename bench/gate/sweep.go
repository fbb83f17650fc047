package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"time"
)

// budget is a chunk size, fixed or predicted, with its server and its results in each round.
type budget struct {
	name   string
	server *server
	rounds []figures
}

// figures are the fields of a report that are used.
type figures struct {
	Rate     float64 `json:"output_tokens_per_second"`
	Requests []struct {
		Gaps []float64 `json:"gaps_ms"`
	} `json:"per_request"`
}

// gaps are all between tokens, ms, in order.
func (f *figures) gaps() []float64 {
	var all []float64
	for _, r := range f.Requests {
		all = append(all, r.Gaps...)
	}
	slices.Sort(all)
	return all
}

// quantile is the q-quantile; 0 without values.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

// p99 is of the gaps of all rounds together.
func (b *budget) p99() float64 {
	var all []float64
	for i := range b.rounds {
		all = append(all, b.rounds[i].gaps()...)
	}
	slices.Sort(all)
	return quantile(all, 0.99)
}

// rate is the mean of the rounds, tokens/s.
func (b *budget) rate() float64 {
	sum := 0.0
	for _, f := range b.rounds {
		sum += f.Rate
	}
	return sum / float64(len(b.rounds))
}

// sweep is the search for one workload.
type sweep struct {
	gate  *gate
	w     workload
	tried []*budget
}

// sweeps checks the workloads, one after the other.
func (g *gate) sweeps(list []workload) error {
	for _, w := range list {
		fmt.Printf("%s: %s, concurrency %d\n", w.name, w.trace, w.concurrency)
		s := &sweep{gate: g, w: w}
		err := s.run()
		for _, b := range s.tried {
			b.server.stop()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

// run measures the predicted sizes, searches the fastest fixed size that meets the target, starting at the best one in simulation, and then
// alternates both for all rounds.
func (s *sweep) run() error {
	g := s.gate
	recording := g.file("predicted%d.jsonl", g.servers)
	predicted, err := s.try("predicted", "--target-itl", g.target.String(), "--record", recording)
	if err != nil {
		return err
	}
	sizes, at, err := s.simulated(recording)
	if err != nil {
		return err
	}
	best, err := s.search(sizes, at)
	if err != nil {
		return err
	}
	for len(predicted.rounds) < g.rounds {
		if best != nil {
			if err := s.again(best); err != nil {
				return err
			}
		}
		if err := s.again(predicted); err != nil {
			return err
		}
	}
	fmt.Printf("  predicted: %.1f tokens/s, p99 of all rounds %.1f ms, %v kept: %v\n", predicted.rate(), predicted.p99(), g.target, s.keeps(predicted))
	switch {
	case best == nil:
		fmt.Println("  none of the fixed sizes keeps it")
	case !s.keeps(best):
		fmt.Printf("  %s: %.1f tokens/s, but %.1f ms in all rounds together; predicted reaches %.1f %% of it\n", best.name, best.rate(), best.p99(), 100*predicted.rate()/best.rate())
	default:
		fmt.Printf("  predicted reaches %.1f %% of the best fixed size that keeps it, %s\n", 100*predicted.rate()/best.rate(), best.name)
	}
	return nil
}

func (s *sweep) keeps(b *budget) bool {
	return b.p99() <= float64(s.gate.target)/float64(time.Millisecond)
}

// search finds the largest size that meets the target, from one on; nil: not even the smallest does.
func (s *sweep) search(sizes []string, at int) (best *budget, err error) {
	for step := 0; at >= 0 && at < len(sizes); at += step {
		b, err := s.try(sizes[at]+" tokens", "--max-num-batched-tokens", sizes[at])
		if err != nil {
			return nil, err
		}
		kept := s.keeps(b)
		if kept && (best == nil || b.rate() > best.rate()) {
			best = b
		}
		switch {
		case step == 0 && kept:
			step = 1
		case step == 0:
			step = -1
		case kept == (step < 0):
			return best, nil
		}
	}
	return best, nil
}

// simulated are the fixed sizes that ridge simulate tries, and which is the best meets the target in simulation; the smallest if none does.
func (s *sweep) simulated(recording string) (sizes []string, best int, err error) {
	g := s.gate
	args := append([]string{"simulate", g.model, "--learn", recording, "--sweep", "--json", "--target-itl", g.target.String()}, append(g.settings(), s.w.flags()...)...)
	out, _ := g.output(args...) // the exit code is that of the check, which the output shows too
	type size struct {
		Budget string `json:"budget"`
		Kept   bool   `json:"under_target"`
	}
	var swept struct {
		Predicted size    `json:"predicted"`
		Fixed     []size  `json:"fixed"`
		Best      *size   `json:"best_fixed"`
		Fraction  float64 `json:"predicted_of_best_fixed"`
	}
	if err := json.Unmarshal([]byte(out), &swept); err != nil || len(swept.Fixed) == 0 {
		return nil, 0, fmt.Errorf("ridge simulate --sweep printed no sizes (%v): %s", err, out)
	}
	for i, x := range swept.Fixed {
		sizes = append(sizes, x.Budget)
		if swept.Best != nil && x.Budget == swept.Best.Budget {
			best = i
		}
	}
	if swept.Best != nil {
		fmt.Printf("  simulated: predicted reaches %.1f %% of the best fixed size, %s tokens; kept: %v\n", 100*swept.Fraction, swept.Best.Budget, swept.Predicted.Kept)
	}
	return sizes, best, nil
}

// try starts a server with such a budget and runs the workload once.
func (s *sweep) try(name string, settings ...string) (*budget, error) {
	server, err := s.gate.start(settings...)
	if err != nil {
		return nil, err
	}
	b := &budget{name: name, server: server}
	s.tried = append(s.tried, b)
	return b, s.again(b)
}

// again runs the workload once more on a budget's server and prints its figures.
func (s *sweep) again(b *budget) error {
	report := s.gate.file("report.json")
	if err := b.server.load(s.w, report); err != nil {
		return err
	}
	data, err := os.ReadFile(report)
	if err != nil {
		return err
	}
	var f figures
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("the report of %s: %w", b.name, err)
	}
	b.rounds = append(b.rounds, f)
	gaps := f.gaps()
	fmt.Printf("  round %d: %-12s %7.1f output tokens/s, ITL p50 %5.1f ms, p99 %6.1f ms\n", len(b.rounds), b.name, f.Rate, quantile(gaps, 0.5), quantile(gaps, 0.99))
	return nil
}
