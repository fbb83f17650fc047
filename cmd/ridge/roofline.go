package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
)

// rooflineFlags say which steps of which model to show on which device.
type rooflineFlags struct {
	setting rooflineSetting
	device  string
	compare string
	plot    string
	asJSON  bool
	noChart bool
	measure bool
	options device.Options // of the device to measure on
}

// rooflineSetting is the setting of a decode and a prefill step.
type rooflineSetting struct {
	shape                  modelShapeFlags
	batch, context, prompt int
	heads                  string // "mha": as many key heads as query heads
	attention              string // "naive": without tiling, scores go through memory
}

func rooflineCommand() *cobra.Command {
	var f rooflineFlags
	cmd := &cobra.Command{
		Use:   "roofline [MODEL]",
		Short: "Show a model's operations under the roofline of a device",
		Long: `Roofline predicts the time of a decode step and of a prefill step, and shows each operation under the device's roofs: peak
arithmetic, and the bandwidth of each memory level. Left of the ridge point, where the roofs meet, an operation is memory-bound,
right of it compute-bound. The table lists each operation's FLOPs (work; FLOP/s is a rate), bytes, arithmetic intensity, bound,
time, share of the step, and fraction of the roof.

MODEL is a GGUF file, a Hugging Face directory, a config.json, or the name of a well-known shape; no weights are needed. Without
one it is the built-in model. --compare shows a second setting too, and both side by side: batch=64, context=8192, prompt=64,
type=Q4_0, kv-type=int8, quantization=fp8, heads=mha, attention=naive (scores written to memory and read again, without tiling).

--measure also times every operation on this machine, one by one, and shows that beside the prediction; in the chart as a capital
letter. MODEL needs its weights then.`,
		Example: `  ridge roofline llama-3.2-1b --type Q4_0
  ridge roofline llama-3.1-8b --device h100-sxm --batch 64 --context 4096 --plot roofline.png
  ridge roofline llama-3.1-8b --device h100-sxm --compare attention=naive
  ridge roofline llama-3.1-8b --device h200 --compare batch=64 --plot batch.svg
  ridge roofline model.gguf --measure --batch 8 --context 512`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.report(cmd.Context(), strings.Join(args, ""))
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
			return r.print(cmd.OutOrStdout(), !f.noChart)
		},
	}
	fl := cmd.Flags()
	f.setting.shape.add(cmd)
	fl.StringVar(&f.device, "device", "here", "a published device, a profile file, or here (this machine, measured)")
	fl.IntVar(&f.setting.batch, "batch", 1, "sequences that decode together")
	fl.IntVar(&f.setting.context, "context", 1024, "tokens of each sequence in the cache")
	fl.IntVar(&f.setting.prompt, "prompt", 512, "prompt tokens of the prefill step")
	fl.StringVar(&f.compare, "compare", "", "show a second setting with these changes: name=value,…")
	fl.StringVar(&f.plot, "plot", "", "write the chart to this .png or .svg file")
	fl.BoolVar(&f.measure, "measure", false, "also time every operation on this machine")
	fl.StringVar(&f.options.Backend, "backend", "", "with --device here: cpu or cuda (cuda:1 is the second GPU); default cpu")
	fl.BoolVar(&f.noChart, "no-chart", false, "print the table alone")
	addJSON(fl, &f.asJSON)
	return cmd
}

// report prices the setting, and the one to compare it with.
func (f *rooflineFlags) report(ctx context.Context, arg string) (*rooflineReport, error) {
	if published := f.device != "here" && !strings.HasSuffix(f.device, ".json"); f.measure && (published || f.compare != "") {
		return nil, errors.New("--measure is for --device here, or a file with a profile of this machine, and without --compare")
	}
	p, err := profileOn(ctx, f.device, f.options)
	if err != nil {
		return nil, err
	}
	r := &rooflineReport{Model: arg, Device: p.Name, profile: p}
	if arg == "" {
		r.Model = "the built-in model"
	}
	if f.measure {
		return r, r.measure(ctx, arg, &f.setting, f.options)
	}
	settings := []rooflineSetting{f.setting}
	if f.compare != "" {
		other := f.setting
		if err := other.change(f.compare); err != nil {
			return nil, err
		}
		settings = append(settings, other)
	}
	for i, s := range settings {
		name := ""
		if i == 1 {
			name = f.compare
		}
		if err := r.add(name, arg, &s); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// change applies name=value pairs.
func (s *rooflineSetting) change(pairs string) error {
	for _, pair := range strings.Split(pairs, ",") {
		name, value, _ := strings.Cut(pair, "=")
		number := map[string]*int{"batch": &s.batch, "context": &s.context, "prompt": &s.prompt}[name]
		switch {
		case number != nil:
			n, err := strconv.Atoi(value)
			if err != nil {
				return fmt.Errorf("--compare %s: %q is not a number", pair, value)
			}
			*number = n
		case name == "type":
			s.shape.number = value
		case name == "kv-type":
			s.shape.cache = value
		case name == "quantization":
			s.shape.quantization = value
		case name == "heads" && value == "mha":
			s.heads = value
		case name == "attention" && value == "naive":
			s.attention = value
		default:
			return fmt.Errorf("--compare %s: batch, context and prompt with a number, type, kv-type and quantization with a format, heads=mha and attention=naive are possible", pair)
		}
	}
	return nil
}

// graph is the model's graph as it runs on the device.
func (s *rooflineSetting) graph(arg string, p *price.Profile) (*graph.Graph, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if err := s.shape.parse(); err != nil {
		return nil, err
	}
	m, err := s.shape.model(arg)
	if err != nil {
		return nil, err
	}
	if s.heads == "mha" {
		m.Config.KVHeads = m.Config.Heads
	}
	g, err := s.shape.graph(m, p.ActType())
	if err != nil {
		return nil, err
	}
	o, err := s.shape.passes(p)
	if err != nil {
		return nil, err
	}
	return pass.Run(g, pass.All, o)
}

func (s *rooflineSetting) check() error {
	if s.batch < 1 || s.context < 0 || s.prompt < 1 {
		return fmt.Errorf("--batch %d, --context %d, --prompt %d: a step has at least one sequence and one token, and no fewer than 0 before", s.batch, s.context, s.prompt)
	}
	if err := checkStep(s.batch, 1, s.context); err != nil {
		return err
	}
	return checkStep(1, s.prompt, s.context)
}

// steps are the two steps to price.
func (s *rooflineSetting) steps() map[string]*graph.Step {
	decode := &graph.Step{Logits: s.batch}
	for range s.batch {
		decode.Seqs = append(decode.Seqs, graph.Seq{New: 1, Past: s.context})
	}
	return map[string]*graph.Step{
		"decode":  decode,
		"prefill": {Logits: 1, Seqs: []graph.Seq{{New: s.prompt, Past: s.context}}},
	}
}
