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
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
)

func calibrateCommand() *cobra.Command {
	var o device.Options
	var asJSON, scored bool
	var path string
	var loras pass.Adapters
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure this machine for predictions",
		Long: `Calibrate measures, in a few seconds, the peaks of this machine (arithmetic by number format, bandwidth of each memory level) and
the fraction of them that Ridge's kernels reach, and keeps the profile in the user's cache directory. Step times can then be
predicted: ridge roofline and ridge bench show them, ridge serve schedules by them. If other programs used the CPUs meanwhile, it
measures once more, and warns if they still do.

With --score it then times steps of a model and compares them with three predictions: by the calibration alone, after learning from
other steps of the model, as ridge serve does, and by a linear fit to those other steps (a constant, tokens and context). No scored
step was used for a fit.

With --json it prints the profile, which --device of other commands reads, here or on other machines; with --score, every scored
step too.`,
		Example: "  ridge calibrate\n  ridge calibrate --json > here.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dev, err := device.Open(o)
			if err != nil {
				return err
			}
			defer dev.Close()
			p, disturbed, err := calibrate.Measure(cmd.Context(), dev, func(what string) { fmt.Fprintln(os.Stderr, "ridge: measuring", what) })
			if err != nil {
				return err
			}
			if disturbed != "" {
				fmt.Fprintf(os.Stderr, "ridge: %s; predictions will be too slow: calibrate again on an idle machine\n", disturbed)
			}
			if err := calibrate.Save(dev, p); err != nil {
				return err
			}
			if scored {
				if loras.Slots == 0 {
					loras = pass.Adapters{}
				}
				return scoreModel(cmd.OutOrStdout(), dev, p, path, loras, asJSON)
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(p)
			}
			return printProfile(cmd.OutOrStdout(), p)
		},
	}
	addDevice(cmd, &o.Backend, &o.Threads, &o.Deterministic)
	addJSON(cmd.Flags(), &asJSON)
	cmd.Flags().BoolVar(&scored, "score", false, "then time steps of a model and print the errors of predictions")
	cmd.Flags().StringVarP(&path, "model", "m", "", "with --score, the model: GGUF file or Hugging Face directory; default: the built-in one")
	cmd.Flags().IntVar(&loras.Slots, "loras", 0, "with --score, random LoRA adapters that the sequences have in turn")
	cmd.Flags().IntVar(&loras.Rank, "rank", 16, "rank of each of --loras")
	return cmd
}

// printProfile prints a profile as text.
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
	fmt.Fprint(w, "\nweights\tfraction of peak arithmetic by rows, for weights of 2M numbers\n")
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

// scoreModel prints the errors of predictions of a model's steps.
func scoreModel(out io.Writer, dev backend.Device, p *price.Profile, path string, loras pass.Adapters, asJSON bool) error {
	if err := pass.CheckAdapters(loras); err != nil {
		return fmt.Errorf("--loras and --rank: %w", err)
	}
	b, err := openModel(pathArgs(path))
	if err != nil {
		return err
	}
	defer b.Close()
	scored, err := calibrate.Model(dev, b.Model, b, p, loras)
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
