//go:build unix

// Adapters measures what LoRA adapters cost on the CPU: steps with them and steps of the same program without, by turns in one process, so that what
// else the machine does falls on both alike.
//
//	go run ./bench/adapters -m 1b-q4_0.gguf -b 16 -loras 16
//
// It prints tokens a second and, for a machine with other load, tokens a second of CPU time; the ratios are medians of those of the rounds.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/bench/throughput"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/pass"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "adapters:", err)
		os.Exit(1)
	}
}

// rates are tokens a second by the clock and by CPU time.
type rates struct{ clock, processor float64 }

func run() error {
	model := flag.String("m", "", "GGUF file or Hugging Face directory")
	batch := flag.Int("b", 16, "sequences of a step")
	prompt := flag.Int("p", 0, "tokens of each sequence in a step; 0: steps that decode")
	steps := flag.Int("n", 8, "steps of a turn that decodes")
	loras := flag.Int("loras", 16, "adapters that the sequences have, in turn")
	rank := flag.Int("rank", 16, "of each")
	rounds := flag.Int("rounds", 7, "turns of each kind")
	threads := flag.Int("t", 0, "threads; 0: as many as this process may use")
	flag.Parse()
	if *batch < 1 || *loras < 1 || *rank < 1 || *rounds < 1 || *steps < 1 || *prompt < 0 {
		return fmt.Errorf("-b, -loras, -rank, -rounds and -n are 1 at least, -p 0: they are %d, %d, %d, %d, %d and %d", *batch, *loras, *rank, *rounds, *steps, *prompt)
	}
	m, err := modeldir.Open(*model)
	if err != nil {
		return fmt.Errorf("model %s: %w", *model, err)
	}
	defer m.Close()
	dev, err := cpu.New(cpu.Options{Threads: *threads, Tier: os.Getenv("RIDGE_CPU")})
	if err != nil {
		return err
	}
	defer dev.Close()
	r, err := throughput.New(m.Model, m, []backend.Device{dev}, throughput.Options{Cache: graph.F16, Tokens: max(*steps, *prompt) + 16, Batch: *batch,
		Chunk: max(*batch, *batch**prompt), LoRAs: pass.Adapters{Slots: *loras, Rank: *rank}})
	if err != nil {
		return err
	}
	defer r.Close()
	test := throughput.Test{Prompt: *prompt, Batch: *batch}
	if *prompt == 0 {
		test.Decode = *steps
	}
	var base, adapted, ratios []rates
	for range *rounds {
		without, err := turn(r, test, 0)
		if err != nil {
			return err
		}
		with, err := turn(r, test, *loras)
		if err != nil {
			return err
		}
		base, adapted = append(base, without), append(adapted, with)
		ratios = append(ratios, rates{with.clock / without.clock, with.processor / without.processor})
	}
	test.LoRAs = *loras
	b, a, of := median(base), median(adapted), median(ratios)
	fmt.Printf("%s, batch %d, %s\n", test.Name(), *batch, dev.Info().Detail)
	fmt.Printf("%16s %10s %10s %6s\n", "tokens/s", "base", "adapters", "ratio")
	fmt.Printf("%16s %10.1f %10.1f %6.3f\n", "by the clock", b.clock, a.clock, of.clock)
	fmt.Printf("%16s %10.1f %10.1f %6.3f\n", "of CPU time", b.processor, a.processor, of.processor)
	byProcessor := func(x, y rates) int { return cmp.Compare(x.processor, y.processor) }
	b, a = slices.MaxFunc(base, byProcessor), slices.MaxFunc(adapted, byProcessor)
	fmt.Printf("%16s %10.1f %10.1f %6.3f\n", "best turn's", b.processor, a.processor, a.processor/b.processor)
	return nil
}

// turn runs a test once, after a run that does not count.
func turn(r *throughput.Runner, t throughput.Test, loras int) (rates, error) {
	t.LoRAs = loras
	start, err := used()
	if err != nil {
		return rates{}, err
	}
	row, err := r.Run(context.Background(), t, 1)
	if err != nil {
		return rates{}, err
	}
	end, err := used()
	if err != nil {
		return rates{}, err
	}
	tokens := 2 * t.Batch * max(t.Decode, t.Prompt)
	return rates{row.Median, float64(tokens) / (end - start).Seconds()}, nil
}

// used is the CPU time of this process so far.
func used() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("the CPU time of this process: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

func median(all []rates) rates {
	of := func(f func(rates) float64) float64 {
		var x []float64
		for _, r := range all {
			x = append(x, f(r))
		}
		slices.Sort(x)
		return x[len(x)/2]
	}
	return rates{of(func(r rates) float64 { return r.clock }), of(func(r rates) float64 { return r.processor })}
}
