package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/internal/calibrate"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/price"
)

func calibrateCommand() *cobra.Command {
	var o device.Options
	var asJSON, scored bool
	var path string
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure this machine for pricing steps",
		Long: `Calibrate measures, in a few seconds, what this machine can do at most (arithmetic by number format, each level of its
memory) and what Ridge's kernels reach of that, and keeps it in the user's cache directory. From then on the price of a
step is known before it is run: ridge roofline and ridge bench show it, ridge serve plans by it. Where other programs take part of
the processors it measures once more if that is done soon, and says so if they still do.

With --score it then times steps of a model and compares: with what the calibration alone says of them, with what it says after
it has seen other steps of the model, as ridge serve does, and with a line through those other steps (a constant, tokens and
context). No step that is scored was used for a fit.

With --json it prints the profile, a file with which --device of other commands takes, here or on other machines; with --score
too, every step that was scored.`,
		Example: "  ridge calibrate\n  ridge calibrate --json > here.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dev, err := device.Open(o)
			if err != nil {
				return err
			}
			defer dev.Close()
			p, disturbed, err := calibrate.Measure(dev, func(what string) { fmt.Fprintln(os.Stderr, "ridge: measuring", what) })
			if err != nil {
				return err
			}
			if disturbed != "" {
				fmt.Fprintf(os.Stderr, "ridge: %s; prices will be too high: calibrate again when the machine is quiet\n", disturbed)
			}
			if err := calibrate.Save(dev, p); err != nil {
				return err
			}
			if scored {
				return scoreModel(cmd.OutOrStdout(), dev, p, path, asJSON)
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(p)
			}
			return printProfile(cmd.OutOrStdout(), p)
		},
	}
	addDevice(cmd, &o.Backend, &o.Threads, &o.Deterministic)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the profile as JSON")
	cmd.Flags().BoolVar(&scored, "score", false, "afterwards time steps of a model and say how far predictions were off")
	cmd.Flags().StringVarP(&path, "model", "m", "", "with --score, the model: GGUF file or Hugging Face directory; default: the built-in one")
	return cmd
}

// printProfile prints a profile for people.
func printProfile(out io.Writer, p *price.Profile) error {
	fmt.Fprintf(out, "%s (%s), %s\n", p.Name, p.Title, p.Source)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, n := range price.Numbers {
		if rate := p.FLOPs[n]; rate > 0 {
			fmt.Fprintf(w, "%s\t%.1f GFLOP/s\n", n, rate/1e9)
		}
	}
	for _, l := range p.Levels {
		fmt.Fprintf(w, "%s\t%.1f MiB\t%.1f GB/s\n", l.Name, float64(l.Bytes)/(1<<20), l.Rate/1e9)
	}
	fmt.Fprint(w, "\nweights\tfraction of the arithmetic's peak by rows, weights of 2M numbers\n")
	for _, format := range slices.Sorted(maps.Keys(p.Fit.Linear)) {
		if format == "" {
			continue
		}
		fmt.Fprintf(w, "%s\t", format)
		for _, point := range p.Fit.Linear[format].Points {
			fmt.Fprintf(w, "%d: %.0f %%\t", point.Rows, 100/point.Large)
		}
		fmt.Fprint(w, "\n")
	}
	return w.Flush()
}

// scoreModel prints how far predictions of a model's steps are off.
func scoreModel(out io.Writer, dev backend.Device, p *price.Profile, path string, asJSON bool) error {
	b, err := openModel(pathArgs(path))
	if err != nil {
		return err
	}
	defer b.Close()
	scored, err := calibrate.Model(dev, b.Model, b, p)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(out).Encode(scored)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "median error of\tcount\tcalibrated\tafter other steps\tworst\ttokens and context\tworst\t\n")
	for _, s := range scored.Scores {
		fmt.Fprintf(w, "%s\t%d\t%.1f %%\t%.1f %%\t%.1f %%\t%.1f %%\t%.1f %%\t\n", s.What, s.Count, 100*s.Calibrated, 100*s.Learned, 100*s.WorstLearned, 100*s.Linear, 100*s.WorstOfLinear)
	}
	return w.Flush()
}
