package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/chat"
	"github.com/ridge-llm/ridge/internal/cascade"
	"github.com/ridge-llm/ridge/server"
)

// cascadeFlags are the settings of a cascade of models, of which each but the last answers what it is sure enough of.
type cascadeFlags struct {
	models     []string
	thresholds []float64
	samples    int
}

func (f *cascadeFlags) add(fl *pflag.FlagSet) {
	fl.StringSliceVar(&f.models, "cascade", nil, "models of a cascade with commas between them, the smallest first, as small.gguf,large.gguf: each answers what it is sure enough of, and passes the rest on; in place of MODEL")
	fl.Var((*thresholdsFlag)(&f.thresholds), "cascade-threshold", "confidence from which on an answer is not passed on, 0 to 1: one for all models but the last, or one for each, with commas between them; ridge cascade tune learns it from prompts")
	fl.IntVar(&f.samples, "cascade-samples", 0, "measure confidence by how far so many other answers agree (self-consistency), at most 16; 0: by the mean probability of the answer's tokens")
}

// thresholdsFlag reads numbers from 0 to 1.
type thresholdsFlag []float64

// Type implements pflag.Value.
func (*thresholdsFlag) Type() string { return "thresholds" }

// String implements pflag.Value.
func (f *thresholdsFlag) String() string {
	var all []string
	for _, t := range *f {
		all = append(all, strconv.FormatFloat(t, 'g', -1, 64))
	}
	return strings.Join(all, ",")
}

// Set implements pflag.Value.
func (f *thresholdsFlag) Set(text string) error {
	var all thresholdsFlag
	for part := range strings.SplitSeq(text, ",") {
		t, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil {
			return fmt.Errorf("%q is no number", part)
		}
		if err := cascade.CheckThreshold(t); err != nil {
			return err
		}
		all = append(all, t)
	}
	*f = all
	return nil
}

// check refuses settings that mean nothing; path is a model that is named beside them.
func (f *cascadeFlags) check(path string) error {
	switch n := len(f.models); {
	case n == 0 && (len(f.thresholds) > 0 || f.samples != 0):
		return errors.New("--cascade-threshold and --cascade-samples are of --cascade, which is not given")
	case n == 0:
		return nil
	case n == 1:
		return fmt.Errorf("--cascade names one model, %s; two at least are needed, with a comma between them", f.models[0])
	case path != "":
		return fmt.Errorf("--cascade and the model %s are both given; the last of the cascade is the model", path)
	case len(f.thresholds) == 0:
		return errors.New("--cascade needs --cascade-threshold, such as 0.8; ridge cascade tune learns it from prompts")
	case len(f.thresholds) != 1 && len(f.thresholds) != n-1:
		return fmt.Errorf("--cascade-threshold has %d numbers for %d models that may pass on; one, or one for each, is needed", len(f.thresholds), n-1)
	case f.samples < 0 || f.samples > cascade.MaxSamples:
		return fmt.Errorf("--cascade-samples %d; 0 to %d are possible", f.samples, cascade.MaxSamples)
	}
	return nil
}

// loaded is a model, and those of a cascade that are asked before it.
type loaded struct {
	*ridge.Model
	stages  []server.Stage
	runtime *ridge.Runtime // of all of them; nil: there is only the one
}

// load loads the models of the cascade, or of model alone if there is none.
func (f *cascadeFlags) load(ctx context.Context, model *modelFlags) (*loaded, error) {
	if err := f.check(model.path); err != nil {
		return nil, err
	}
	if len(f.models) == 0 {
		m, err := model.load(ctx)
		if err != nil {
			return nil, err
		}
		return &loaded{Model: m}, nil
	}
	if model.options.MaxLoRAs > 0 {
		return nil, errors.New("--cascade takes no adapters (--lora, --lora-dir, --max-loras): which of the models they are for is not said")
	}
	if model.options.Ranks.Rendezvous != "" {
		return nil, errors.New("--cascade and ranks (--ranks, --rendezvous): processes share one model; leave one out")
	}
	r, err := ridge.NewRuntime(ridge.RuntimeOptions{Threads: model.options.Threads})
	if err != nil {
		return nil, err
	}
	all := &loaded{runtime: r}
	for i, name := range f.models {
		one := *model
		one.path = name
		if one.options.Threads = 0; i < len(f.models)-1 { // what is said of the model is said of the last
			one.options.Speculation, one.options.EarlyExit, one.options.Record, one.template = ridge.Speculation{}, ridge.EarlyExit{}, nil, ""
		}
		m, err := one.loadWith(ctx, r.Load)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("model %s of the cascade: %w", name, err), all.Close())
		}
		if i == len(f.models)-1 {
			all.Model = m
			continue
		}
		all.stages = append(all.stages, server.Stage{Model: m, Threshold: f.thresholds[min(i, len(f.thresholds)-1)], Samples: f.samples})
	}
	return all, nil
}

// Close closes all models.
func (l *loaded) Close() (err error) {
	for _, s := range l.stages {
		err = errors.Join(err, s.Model.Close())
	}
	if l.Model != nil {
		err = errors.Join(err, l.Model.Close())
	}
	if l.runtime != nil {
		err = errors.Join(err, l.runtime.Close())
	}
	return err
}

// Replaced reports whether files of one of the models are not those it was loaded from.
func (l *loaded) Replaced() bool {
	for _, s := range l.stages {
		if s.Model.Replaced() {
			return true
		}
	}
	return l.Model.Replaced()
}

// asked is an answer that is made as a whole, and how sure its model is of it.
type asked struct {
	text   string
	finish *ridge.Finish
	sure   float64
}

// ask has a model answer a conversation, or continue a text if there is none, and says how sure it is of its answer.
func ask(ctx context.Context, m *ridge.Model, p ridge.Params, text string, messages []chat.Message, samples int) (a asked, err error) {
	c := &cascade.Confidence{Samples: samples}
	for i := range 1 + samples {
		q := p
		if q.Sampling.Logprobs = i == 0; i > 0 {
			q.Sampling.Seed += uint64(i)
			if q.Sampling.Temperature == 0 {
				q.Sampling.Temperature = 0.7
			}
		}
		pieces := m.Generate(ctx, text, q)
		if len(messages) > 0 {
			pieces = m.Chat(ctx, messages, q)
		}
		for piece, err := range pieces {
			if err != nil {
				return a, err
			}
			if samples > 0 {
				c.Text(i, piece.Text)
			}
			if i > 0 {
				continue
			}
			if piece.Token != nil {
				c.Token(float64(piece.Token.Logprob))
			}
			a.text += piece.Text
			if piece.Finish != nil {
				a.finish = piece.Finish
			}
		}
	}
	a.sure = c.Value()
	return a, nil
}

// first answers a prompt with the first of the models before the last that is sure enough; false: none is.
func (l *loaded) first(cmd *cobra.Command, f *runFlags, prompt string) (bool, error) {
	for _, s := range l.stages {
		p, err := f.sampling.params(cmd, s.Model)
		if err != nil {
			return false, err
		}
		messages, err := f.messages(s.Model, prompt)
		if err != nil {
			return false, err
		}
		if err := f.structured.constrain(cmd.Context(), s.Model, &p, messages); err != nil {
			return false, err
		}
		a, err := ask(cmd.Context(), s.Model, p, prompt, messages, s.Samples)
		if err != nil {
			return false, err
		}
		if a.sure >= s.Threshold {
			fmt.Println(a.text)
			fmt.Fprintf(os.Stderr, "ridge: %s answered, with a confidence of %.3f\n", s.Model.Name(), a.sure)
			return true, nil
		}
		fmt.Fprintf(os.Stderr, "ridge: %s passes on, with a confidence of %.3f\n", s.Model.Name(), a.sure)
	}
	return false, nil
}

func cascadeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cascade",
		Short: "Learn when a small model's answers are passed on to a larger one",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(cascadeTuneCommand())
	return cmd
}
