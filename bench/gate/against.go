package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"text/tabwriter"
)

// compared is a figure of a real run beside a simulation's, as ridge simulate --json has it.
type compared struct {
	What     string  `json:"what"`
	Measured float64 `json:"measured"`
	Off      float64 `json:"off"`   // simulated / measured − 1
	Bound    float64 `json:"bound"` // largest |Off| that passes
}

// simulations runs all workloads in rounds, each on a recorded server of its own. Then each run is simulated, with step times learned from
// the next round: the same kind of traffic, but other requests at another time.
func (g *gate) simulations(list []workload) error {
	for round := range g.rounds {
		if err := g.recordRound(round, list); err != nil {
			return err
		}
	}
	for i, w := range list {
		var rounds [][]compared
		for round := range g.rounds {
			c, err := g.compare(w, g.report(round, i), g.recording((round+1)%g.rounds))
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			rounds = append(rounds, c)
		}
		fmt.Printf("%s: %s, concurrency %d\n", w.name, w.trace, w.concurrency)
		if err := printComparison(rounds); err != nil {
			return err
		}
	}
	return nil
}

func (g *gate) recording(round int) string { return g.file("round%d.jsonl", round) }

func (g *gate) report(round, workload int) string { return g.file("round%d-%d.json", round, workload) }

// recordRound sends every workload to one server.
func (g *gate) recordRound(round int, list []workload) error {
	s, err := g.start("--record", g.recording(round))
	if err != nil {
		return err
	}
	defer s.stop()
	for i, w := range list {
		if err := s.load(w, g.report(round, i)); err != nil {
			return err
		}
	}
	return nil
}

// compare has ridge simulate a run that was reported, with step times learned from a recording.
func (g *gate) compare(w workload, report, recording string) ([]compared, error) {
	args := append([]string{"simulate", g.model, "--json", "--learn", recording, "--against", report}, append(g.settings(), w.flags()...)...)
	if g.lora != "" {
		args = append(args, "--loras", "1", "--rank", strconv.Itoa(g.rank))
	}
	out, err := g.output(args...)
	if err != nil {
		return nil, err
	}
	var result struct {
		Compared []compared `json:"compared"`
	}
	err = json.Unmarshal([]byte(out), &result)
	return result.Compared, err
}

// printComparison prints the figures of each round, the difference between rounds, and the errors of the simulations. A missed bound is
// printed and is not an error.
func printComparison(rounds [][]compared) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\t")
	for i := range rounds {
		fmt.Fprintf(w, "round %d\tsimulated\t", i+1)
	}
	fmt.Fprint(w, "rounds apart\tmay be off\t\n")
	for k, first := range rounds[0] {
		fmt.Fprintf(w, "%s\t", first.What)
		least, most, kept := math.Inf(1), 0.0, true
		for _, r := range rounds {
			fmt.Fprintf(w, "%.1f\t%+.1f %%\t", r[k].Measured, 100*r[k].Off)
			least, most = min(least, r[k].Measured), max(most, r[k].Measured)
			kept = kept && math.Abs(r[k].Off) <= first.Bound
		}
		apart := most/least - 1
		verdict := ""
		switch {
		case !kept && apart > first.Bound:
			verdict = "missed, as real runs miss each other"
		case !kept:
			verdict = "missed"
		}
		fmt.Fprintf(w, "%.1f %%\t±%.0f %%\t%s\n", 100*apart, 100*first.Bound, verdict)
	}
	return w.Flush()
}
