package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/internal/cascade"
)

// tuneFlags are what ridge cascade tune is asked for.
type tuneFlags struct {
	model            modelFlags
	prompts, plot    string
	samples, longest int
	keep             float64
	asJSON           bool
}

// tunePrompt is a line of the file of prompts.
type tunePrompt struct {
	Prompt   string         `json:"prompt"`
	Messages []chat.Message `json:"messages"`
	Answer   string         `json:"answer"` // "": the large model's answer is what is wanted
}

// tuneReport is what was found.
type tuneReport struct {
	Small     string          `json:"small"`
	Large     string          `json:"large"`
	Threshold float64         `json:"threshold"`
	Keep      float64         `json:"keep"`
	Chosen    cascade.Point   `json:"chosen"`
	Alone     cascade.Point   `json:"large_alone"`
	Points    []cascade.Point `json:"points"`
	Prompts   []cascade.Tried `json:"prompts"`
}

func cascadeTuneCommand() *cobra.Command {
	var f tuneFlags
	cmd := &cobra.Command{
		Use:   "tune SMALL LARGE",
		Short: "Learn the threshold of a cascade from prompts",
		Long: `Tune has both models answer prompts, greedily, and finds the confidence from which on the small model's answers are good enough: of the thresholds that keep
--keep of the quality of the large model alone, the one with which answers take least time. --prompts is a file with a JSON object a line: prompt or messages, and answer, if it is
known; without one, the large model's answer is what is wanted. An answer's quality is its longest common subsequence of words with what is wanted (ROUGE-L).`,
		Example: `  ridge cascade tune small.gguf large.gguf --prompts prompts.jsonl --plot cascade.png
  ridge serve --cascade small.gguf,large.gguf --cascade-threshold 0.83`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.run(cmd.Context(), args, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if f.plot != "" {
				if err := r.draw(f.plot); err != nil {
					return err
				}
			}
			if f.asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
			}
			return r.print(cmd.OutOrStdout())
		},
	}
	addDevice(cmd, &f.model.options.Backend, &f.model.options.Threads, &f.model.options.Deterministic)
	fl := cmd.Flags()
	fl.IntVarP(&f.model.options.Context, "ctx", "c", 0, "longest prompt and answer together, in tokens; 0: the model's own, 8192 at most")
	fl.StringVar(&f.prompts, "prompts", "", "the file with the prompts")
	fl.IntVar(&f.samples, "cascade-samples", 0, "measure confidence by how far so many other answers agree, at most 16; 0: by the mean probability of the answer's tokens")
	fl.IntVarP(&f.longest, "max-tokens", "n", 256, "longest answer, in tokens")
	fl.Float64Var(&f.keep, "keep", 0.98, "share of the large model's quality to keep, above 0 and up to 1")
	fl.StringVar(&f.plot, "plot", "", "draw quality against time per threshold into this file, .png or .svg")
	addJSON(fl, &f.asJSON)
	if err := cmd.MarkFlagRequired("prompts"); err != nil {
		panic(err) // there is no such flag: a mistake here
	}
	return cmd
}

// read is the file's prompts.
func (f *tuneFlags) read() ([]tunePrompt, error) {
	text, err := os.ReadFile(f.prompts)
	if err != nil {
		return nil, fmt.Errorf("--prompts: %w", err)
	}
	var all []tunePrompt
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 64<<20)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var p tunePrompt
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return nil, fmt.Errorf("line %d of %s: %w; a JSON object with prompt or messages is wanted", n, f.prompts, err)
		}
		if (p.Prompt == "") == (len(p.Messages) == 0) {
			return nil, fmt.Errorf("line %d of %s has prompt and messages, or neither; one of them is wanted", n, f.prompts)
		}
		all = append(all, p)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.prompts, err)
	}
	if len(all) < 2 {
		return nil, fmt.Errorf("%s has %d prompts; two at least are needed, and some dozens to learn much", f.prompts, len(all))
	}
	return all, nil
}

// run tries both models.
func (f *tuneFlags) run(ctx context.Context, args []string, progress io.Writer) (*tuneReport, error) {
	if f.plot != "" {
		if err := checkChart(f.plot); err != nil {
			return nil, err
		}
	}
	if f.samples < 0 || f.samples > cascade.MaxSamples || f.longest < 1 {
		return nil, fmt.Errorf("--cascade-samples %d and --max-tokens %d; 0 to %d, and 1 or more, are possible", f.samples, f.longest, cascade.MaxSamples)
	}
	if _, err := cascade.Choose(nil, cascade.Point{}, f.keep); f.keep > 1 || !(f.keep > 0) {
		return nil, err
	}
	prompts, err := f.read()
	if err != nil {
		return nil, err
	}
	models, err := (&cascadeFlags{models: args, thresholds: []float64{1}, samples: f.samples}).load(ctx, &f.model)
	if err != nil {
		return nil, err
	}
	defer models.Close()
	small, large := models.stages[0].Model, models.Model
	r := &tuneReport{Small: small.Name(), Large: large.Name(), Keep: f.keep}
	p := ridge.Greedy()
	p.MaxTokens = f.longest
	for i, q := range prompts {
		a, err := askTuned(ctx, small, p, q, f.samples)
		if err != nil {
			return nil, fmt.Errorf("prompt %d: %s: %w", i+1, small.Name(), err)
		}
		b, err := askTuned(ctx, large, p, q, 0)
		if err != nil {
			return nil, fmt.Errorf("prompt %d: %s: %w", i+1, large.Name(), err)
		}
		wanted := q.Answer
		if wanted == "" {
			wanted = b.text
		}
		answer := func(x asked) cascade.Answer {
			return cascade.Answer{Text: x.text, Quality: cascade.Agreement(x.text, wanted), Seconds: x.finish.Wall.Seconds()}
		}
		r.Prompts = append(r.Prompts, cascade.Tried{Confidence: a.sure, Small: answer(a), Large: answer(b)})
		fmt.Fprintf(progress, "\r%d of %d prompts ", i+1, len(prompts))
	}
	fmt.Fprintln(progress)
	r.Points, r.Alone = cascade.Points(r.Prompts), cascade.Alone(r.Prompts)
	if r.Chosen, err = cascade.Choose(r.Points, r.Alone, f.keep); err != nil {
		return nil, err
	}
	r.Threshold = r.Chosen.Threshold
	return r, nil
}

// askTuned has a model answer a prompt of the file, as a conversation if it can.
func askTuned(ctx context.Context, m *ridge.Model, p ridge.Params, q tunePrompt, samples int) (asked, error) {
	messages := q.Messages
	if len(messages) == 0 && m.CanChat() {
		messages = []chat.Message{{Role: "user", Content: q.Prompt}}
	}
	return ask(ctx, m, p, q.Prompt, messages, samples)
}

// print writes the report as text.
func (r *tuneReport) print(out io.Writer) error {
	fmt.Fprintf(out, "%s before %s, %d prompts; %s alone: quality %.3f, %.3f s an answer\n", r.Small, r.Large, len(r.Prompts), r.Large, r.Alone.Quality, r.Alone.Seconds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "threshold\tpassed on\tquality\ts an answer\tof alone\t")
	for _, p := range r.Points {
		mark := ""
		if p == r.Chosen {
			mark = " <"
		}
		fmt.Fprintf(w, "%.4f\t%.0f %%\t%.3f\t%.3f\t%.2f%s\t\n", p.Threshold, 100*p.Passed, p.Quality, p.Seconds, p.Seconds/max(r.Alone.Seconds, 1e-9), mark)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if r.Chosen.Seconds >= r.Alone.Seconds {
		if _, err := fmt.Fprintf(out, "no threshold that keeps as much takes less time than %s alone; serve that, or keep less (--keep)\n", r.Large); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "--cascade-threshold %.4f keeps %.1f %% of the quality at %.2f of the time\n", r.Threshold, 100*r.Chosen.Quality/max(r.Alone.Quality, 1e-9), r.Chosen.Seconds/max(r.Alone.Seconds, 1e-9))
	return err
}
