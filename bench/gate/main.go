// Gate checks predictions against real servers on this machine, with server and clients in separate processes:
//
//	go run ./bench/gate -ridge ./ridge -m model.gguf           simulations against real runs of the same traces
//	go run ./bench/gate -ridge ./ridge -m model.gguf -sweep    predicted chunk sizes against the best fixed size
//	go run ./bench/gate -ridge ./ridge -m model.gguf -lora A   the first of requests with an adapter, which the simulations have too
//
// All need an idle machine that ridge calibrate has measured, and take a minute or two. Every run is repeated in several rounds, which
// show the variation between real runs. Servers are warmed up first.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// workload is a trace of requests, with their arrivals.
type workload struct {
	name, trace string
	concurrency int // requests running at once; 0: arrivals of the trace
}

// simulated are the workloads of the first gate: even and bursty arrivals, and closed-loop clients. In each, at least a tenth of the gaps
// between tokens contain a prefill chunk: at a twentieth, the 95th percentile would be a step of 20 ms or of 200 ms by chance.
var simulated = []workload{
	{"poisson", "poisson:rate=6,n=72,in=30-100,out=10-40", 0},
	{"bursts", "gamma:rate=5,n=60,in=30-130,out=10-40,cv=2", 0},
	{"8 at once", "constant:n=80,in=50-150,out=10-40", 8},
}

// sweepable are those of the second, which keep the server busy: conversations, long prompts, and bursts of short ones.
var sweepable = []workload{
	{"chat", "constant:n=22,in=100-400,out=20-100", 8},
	{"long prompts", "constant:n=10,in=600-1000,out=10-40", 4},
	{"bursts", "burst:rate=8,size=8,n=28,in=50-200,out=60-150", 0},
}

// flags are the flags of bench serve and simulate for the workload.
func (w workload) flags() []string {
	return []string{"--trace", w.trace, "--concurrency", strconv.Itoa(w.concurrency)}
}

// gate is the settings of all runs.
type gate struct {
	ridge, model, dir string
	lora              string // adapter that all requests have; "": none
	rank              int    // its
	context, parallel int
	rounds            int
	target            time.Duration
	servers           int // started so far
}

func main() {
	g := &gate{}
	flag.StringVar(&g.ridge, "ridge", "ridge", "the program")
	flag.StringVar(&g.model, "m", "", "GGUF file")
	flag.StringVar(&g.lora, "lora", "", "LoRA adapter of the model, a PEFT folder or a GGUF file, that all requests have")
	flag.IntVar(&g.rank, "rank", 16, "rank of the adapter")
	flag.IntVar(&g.context, "ctx", 1280, "context of a request, tokens")
	flag.IntVar(&g.parallel, "parallel", 8, "requests that run at once")
	flag.IntVar(&g.rounds, "rounds", 2, "how often everything is run, at least 2")
	flag.DurationVar(&g.target, "target-itl", 80*time.Millisecond, "with -sweep: the target for 99 of 100 gaps between tokens")
	only := flag.String("only", "", "the workloads of these names alone, with commas between")
	sweep := flag.Bool("sweep", false, "check predicted chunk sizes instead of simulations")
	flag.Parse()
	if g.model == "" || g.rounds < 2 {
		fail("give -m FILE, and -rounds of 2 or more")
	}
	var err error
	if g.dir, err = os.MkdirTemp("", "ridge-gate-"); err != nil {
		fail("%v", err)
	}
	defer os.RemoveAll(g.dir)
	list, check := simulated, g.simulations
	if *sweep {
		list, check = sweepable, g.sweeps
	}
	if *only != "" {
		names := strings.Split(*only, ",")
		list = slices.DeleteFunc(list, func(w workload) bool { return !slices.Contains(names, w.name) })
	}
	if err := check(list); err != nil {
		fail("%v", err)
	}
}

// settings are the flags that server and simulation share.
func (g *gate) settings() []string {
	return []string{"--ctx", strconv.Itoa(g.context), "--parallel", strconv.Itoa(g.parallel)}
}

// file is a path in the gate's own folder.
func (g *gate) file(format string, args ...any) string {
	return filepath.Join(g.dir, fmt.Sprintf(format, args...))
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "gate: "+format+"\n", args...)
	os.Exit(1)
}
