package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/internal/simulate"
)

// replayFlags are the settings to change.
type replayFlags struct {
	kv, index          string
	policy             sched.Policy
	stepTokens         int
	parallel           int
	waitingServedRatio float64
	asJSON             bool
}

// replayReport is what replay prints as JSON.
type replayReport struct {
	Check   *simulate.Check  `json:"check"`
	Cut     string           `json:"incomplete,omitempty"` // why the recording is
	Same    *simulate.Result `json:"simulated_as_recorded,omitempty"`
	Changed *simulate.Result `json:"changed,omitempty"`
}

func replayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay RECORDING",
		Short: "Replay a recorded server, as it was or with a setting changed",
		Long: `Replay takes what ridge serve --record wrote and runs the engine's scheduler on it again, in virtual time and without the
model: the same requests arrive at the same times, get the same answers, and every scheduling decision is compared with the recorded
one. It checks that the recording is whole, and says when it was cut off, because the server was killed or its disk was full.

With one or more of --kv, --policy, --prefix-index, --max-num-batched-tokens, --parallel and --waiting-served-ratio it then
simulates the recorded requests with the old settings and with the new, on steps that take as long as the recorded ones.`,
		Example: `  ridge serve model.gguf --record run.jsonl
  ridge replay run.jsonl
  ridge replay run.jsonl --kv 2x
  ridge replay run.jsonl --policy longest-prefix --max-num-batched-tokens 256`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			r, err := simulate.ReadRecording(args[0], file)
			if err != nil {
				return err
			}
			return f.run(cmd, r)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.kv, "kv", "", "size of the KV cache: a multiple of the recorded one (2x, 0.5x), or tokens")
	addPolicy(fl, &f.policy, "")
	fl.StringVar(&f.index, "prefix-index", "", "prefix cache index: radix, hash, or none")
	fl.IntVar(&f.stepTokens, "max-num-batched-tokens", 0, "most tokens of a step")
	fl.IntVar(&f.parallel, "parallel", 0, "requests that run at once")
	fl.Float64Var(&f.waitingServedRatio, "waiting-served-ratio", 0, "start a prefill only when waiting requests are this many times the running ones")
	addJSON(fl, &f.asJSON)
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command, r *simulate.Recording) error {
	check, sizes, err := simulate.Replay(r)
	if err != nil {
		return err
	}
	report := replayReport{Check: check, Cut: r.Incomplete}
	if f.alters(cmd) {
		settings, err := f.alter(cmd, r)
		if err != nil {
			return err
		}
		cost, err := simulate.Learn(sizes, r.Took())
		if err != nil {
			return err
		}
		if report.Same, err = r.Run(r.Settings(), cost, "as recorded"); err != nil {
			return err
		}
		if report.Changed, err = r.Run(settings, cost, "changed"); err != nil {
			return err
		}
	}
	if f.asJSON {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
	} else {
		err = report.print(cmd.OutOrStdout())
	}
	if err == nil && check.Differs != "" {
		err = errFailed
	}
	return err
}

func (f *replayFlags) alters(cmd *cobra.Command) bool {
	changed := false
	for _, name := range []string{"kv", "policy", "prefix-index", "max-num-batched-tokens", "parallel", "waiting-served-ratio"} {
		changed = changed || cmd.Flags().Changed(name)
	}
	return changed
}

// alter is the recorded settings with what the flags change.
func (f *replayFlags) alter(cmd *cobra.Command, r *simulate.Recording) (simulate.Settings, error) {
	s := r.Settings()
	is := cmd.Flags().Changed
	if is("kv") {
		pages, err := f.pages(s.Limits.Pages, s.Limits.PageSize)
		if err != nil {
			return s, err
		}
		s.Limits.Pages = pages
	}
	if is("policy") {
		s.Engine.Policy = f.policy
	}
	if is("prefix-index") {
		s.Engine.Index = f.index
	}
	if is("max-num-batched-tokens") {
		s.Limits.Tokens, s.Engine.StepTokens = f.stepTokens, 0
	}
	if is("parallel") {
		s.Limits.Seqs, s.Limits.Logits = f.parallel, f.parallel
	}
	if is("waiting-served-ratio") {
		s.Engine.WaitingServedRatio = f.waitingServedRatio
	}
	if s.Limits.Tokens < 1 || s.Limits.Seqs < 1 {
		return s, fmt.Errorf("--max-num-batched-tokens %d and --parallel %d; both must be 1 or more", s.Limits.Tokens, s.Limits.Seqs)
	}
	s.Limits.Regroup()
	return s, nil
}

// pages reads --kv.
func (f *replayFlags) pages(recorded, pageSize int) (int, error) {
	number, times := strings.CutSuffix(f.kv, "x")
	x, err := strconv.ParseFloat(number, 64)
	if !times {
		x /= float64(recorded * pageSize)
	}
	pages := x * float64(recorded)
	if err != nil || !(pages >= 1 && pages <= 1<<28) {
		return 0, fmt.Errorf("--kv is %q; a multiple of the recorded %d tokens such as 2x, or a number of tokens, is possible", f.kv, recorded*pageSize)
	}
	return int(pages), nil
}

func (r *replayReport) print(out io.Writer) error {
	c := r.Check
	if r.Cut != "" {
		fmt.Fprintf(out, "the recording is not complete: %s; what is there of it was replayed\n", r.Cut)
	}
	if c.Differs == "" {
		fmt.Fprintf(out, "%d steps, %d requests: every decision is as recorded\n", c.Steps, c.Requests)
	} else {
		fmt.Fprintf(out, "%d of %d steps are decided as recorded, then %s\n", c.Same, c.Steps, c.Differs)
	}
	if r.Changed == nil {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\nsimulated\tanswered\ttok/s\tTTFT p50 ms\tp95\tITL p50\tp95\tcached\tpreempted\tsteps\t\n")
	for _, x := range []*simulate.Result{r.Same, r.Changed} {
		p, s := x.Report, x.Stats
		fmt.Fprintf(w, "%s\t%d of %d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f %%\t%d\t%d\t\n", p.Model, p.Completed, p.Requests, p.OutputRate,
			p.TTFT.P50, p.TTFT.P95, p.ITL.P50, p.ITL.P95, 100*float64(s.Found)/float64(max(s.Queried, 1)), s.Preemptions, s.Steps)
	}
	return w.Flush()
}
