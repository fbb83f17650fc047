// Gate reruns two of Ridge's promises about prices on this machine, with the server and the clients in processes of their own:
//
//	go run ./bench/gate -ridge ./ridge -m model.gguf           simulations beside real runs of the same traces
//	go run ./bench/gate -ridge ./ridge -m model.gguf -sweep    chunks of prompts by price beside the best fixed size
//
// Both need a quiet machine that ridge calibrate has measured in that state. Simulations learn what a server's steps take from a recording of
// other requests than those that are compared. A server is warmed up first.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// workload is requests that come, and in which order.
type workload struct {
	name, trace string
	concurrency int // requests under way at once; 0: they come when the trace says
}

// simulated are the workloads of the first gate: sparse and crowded arrivals, and clients that wait for their answers.
var simulated = []workload{
	{"poisson", "poisson:rate=2.5,n=60,in=100-300,out=10-50", 0},
	{"bursts", "gamma:rate=2,n=40,in=50-400,out=20-60,cv=2", 0},
	{"8 at once", "constant:n=60,in=100-400,out=20-80", 8},
}

// sweepable are those of the second, which keep the server busy: conversations, long prompts, and bursts of short ones.
var sweepable = []workload{
	{"chat", "constant:n=40,in=100-400,out=20-100", 8},
	{"long prompts", "constant:n=18,in=600-1000,out=10-40", 4},
	{"bursts", "burst:rate=8,size=8,n=40,in=50-200,out=60-150", 0},
}

// teaching is the requests whose steps the simulations learn from.
var teaching = workload{"teaching", "gamma:rate=3,n=30,in=20-500,out=5-60,cv=2,seed=7", 0}

// flags are what bench serve and simulate are told of the workload.
func (w workload) flags() []string {
	return []string{"--trace", w.trace, "--concurrency", strconv.Itoa(w.concurrency)}
}

// gate is the settings of all runs.
type gate struct {
	ridge, model, dir string
	context, parallel int
	target            string
	recording         string // of traffic that is none of the workloads, for the simulations to learn from
}

func main() {
	g := gate{}
	flag.StringVar(&g.ridge, "ridge", "ridge", "the program")
	flag.StringVar(&g.model, "m", "", "GGUF file")
	flag.IntVar(&g.context, "ctx", 1280, "context of a request, tokens")
	flag.IntVar(&g.parallel, "parallel", 8, "requests that run at once")
	flag.StringVar(&g.target, "target-itl", "80ms", "with -sweep: the target for 99 of 100 gaps between tokens")
	only := flag.String("only", "", "the workloads of these names alone, with commas between")
	sweep := flag.Bool("sweep", false, "check priced chunks of prompts instead of simulations")
	flag.Parse()
	if g.model == "" {
		fail("give -m FILE")
	}
	var err error
	if g.dir, err = os.MkdirTemp("", "ridge-gate-"); err != nil {
		fail("%v", err)
	}
	defer os.RemoveAll(g.dir)
	list, check := simulated, g.against
	if *sweep {
		list, check = sweepable, g.sweep
	}
	g.recording = filepath.Join(g.dir, "teaching.jsonl")
	if _, err := g.serve(teaching, "--record", g.recording); err != nil {
		fail("%v", err)
	}
	for _, w := range list {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), w.name) {
			continue
		}
		fmt.Printf("%s: %s, concurrency %d\n", w.name, w.trace, w.concurrency)
		if err := check(w); err != nil {
			fail("%s: %v", w.name, err)
		}
	}
}

// settings are what server and simulation have in common.
func (g *gate) settings() []string {
	return []string{"--ctx", strconv.Itoa(g.context), "--parallel", strconv.Itoa(g.parallel)}
}

// against runs a workload and has ridge simulate compare, with prices learnt from other requests and from the run itself: what only the
// second keeps is the machine's, which was faster or slower a minute ago. That a bound is missed is printed and no error.
func (g *gate) against(w workload) error {
	own := filepath.Join(g.dir, "own.jsonl")
	report, err := g.serve(w, "--record", own)
	if err != nil {
		return err
	}
	for _, learn := range []struct{ from, recording string }{{"other requests", g.recording}, {"the run itself", own}} {
		args := append([]string{"simulate", g.model, "--learn", learn.recording, "--against", report}, append(g.settings(), w.flags()...)...)
		out, err := g.output(args...)
		at := strings.LastIndex(out, "\n\n")
		if at < 0 {
			return fmt.Errorf("ridge simulate printed no comparison: %v\n%s", err, out)
		}
		fmt.Printf("learnt from %s\n%s\n", learn.from, out[at+2:])
	}
	return nil
}

// figures are what is read of a report.
type figures struct {
	Rate float64 `json:"output_tokens_per_second"`
	ITL  struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"itl_ms"`
}

// sweep searches the fastest fixed size of a step that keeps the target, from the one that is best in simulation on, and runs the priced
// one beside it.
func (g *gate) sweep(w workload) error {
	sizes, best, err := g.simulatedSizes(w)
	if err != nil {
		return err
	}
	target, err := time.ParseDuration(g.target)
	if err != nil {
		return fmt.Errorf("-target-itl: %w", err)
	}
	keeps := func(f figures) bool { return f.ITL.P99 <= float64(target)/float64(time.Millisecond) }
	var fixed figures
	for at, step := best, 0; at >= 0 && at < len(sizes); at += step {
		f, err := g.print(w, sizes[at]+" tokens", "--max-num-batched-tokens", sizes[at])
		if err != nil {
			return err
		}
		if keeps(f) {
			fixed.Rate = max(fixed.Rate, f.Rate)
		}
		switch {
		case step == 0 && keeps(f):
			step = 1
		case step == 0:
			step = -1
		case keeps(f) == (step < 0): // the edge
			at = len(sizes)
		}
	}
	priced, err := g.print(w, "priced", "--target-itl", g.target)
	if err != nil {
		return err
	}
	if fixed.Rate == 0 {
		fmt.Printf("  no fixed size keeps %s; priced does: %v\n", g.target, keeps(priced))
		return nil
	}
	fmt.Printf("  priced reaches %.1f %% of the best fixed size that keeps %s, and keeps it: %v\n", 100*priced.Rate/fixed.Rate, g.target, keeps(priced))
	return nil
}

// simulatedSizes are the fixed sizes that ridge simulate tries, and which is the best that keeps the target there.
func (g *gate) simulatedSizes(w workload) (sizes []string, best int, err error) {
	args := append([]string{"simulate", g.model, "--learn", g.recording, "--sweep", "--json", "--target-itl", g.target}, append(g.settings(), w.flags()...)...)
	out, _ := g.output(args...) // its exit code says whether the gate is kept in simulation, and so does what it prints
	var swept struct {
		Fixed []struct {
			Budget string `json:"budget"`
		} `json:"fixed"`
		Best *struct {
			Budget string `json:"budget"`
		} `json:"best_fixed"`
		Fraction float64 `json:"priced_of_best_fixed"`
	}
	if err := json.Unmarshal([]byte(out), &swept); err != nil || swept.Best == nil {
		return nil, 0, fmt.Errorf("no fixed budget keeps %s in simulation (%v): %s", g.target, err, out)
	}
	fmt.Printf("  simulated: priced reaches %.1f %% of the best fixed budget, %s\n", 100*swept.Fraction, swept.Best.Budget)
	for i, s := range swept.Fixed {
		sizes = append(sizes, s.Budget)
		if s.Budget == swept.Best.Budget {
			best = i
		}
	}
	return sizes, best, nil
}

// print runs a workload on a server with more settings and prints its figures.
func (g *gate) print(w workload, name string, more ...string) (f figures, err error) {
	report, err := g.serve(w, more...)
	if err != nil {
		return f, err
	}
	data, err := os.ReadFile(report)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("%s: %w", filepath.Base(report), err)
	}
	fmt.Printf("  measured: %-12s %7.1f output tokens/s, ITL p50 %5.1f ms, p99 %6.1f ms\n", name, f.Rate, f.ITL.P50, f.ITL.P99)
	return f, nil
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "gate: "+format+"\n", args...)
	os.Exit(1)
}
