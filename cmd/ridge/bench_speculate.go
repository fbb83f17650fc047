package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/ridge-llm/ridge/bench/speculate"
	"github.com/ridge-llm/ridge/engine/draft"
	"github.com/ridge-llm/ridge/internal/calibrate"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/pass"
)

// speculation adds the rows of speculative decoding to a report.
func (f *benchFlags) speculation(b *modeldir.Dir, r *benchReport) error {
	if !(f.accept >= 0 && f.accept <= 1) || len(f.drafts) == 0 || slices.Min(f.drafts) < 1 || slices.Max(f.drafts) > draft.MaxTokens || len(f.decodes) == 0 {
		return fmt.Errorf("--speculate is %g, --draft-max %v and --decode %v; 0 to 1, 1 to %d and a number of tokens are possible", f.accept, f.drafts, f.decodes, draft.MaxTokens)
	}
	dev, err := device.Open(f.device)
	if err != nil {
		return err
	}
	defer dev.Close()
	cache, err := device.CacheType(f.device.Backend, f.kvType)
	if err != nil {
		return err
	}
	weights, err := pass.OnLoadFormat(f.quantization, dev.Info().Act)
	if err != nil {
		return fmt.Errorf("--quantization: %w", err)
	}
	profile, err := calibrate.Cached(dev)
	if profile == nil || err != nil {
		profile = calibrate.Nominal(dev)
	}
	var small *speculate.Files
	if f.draftModel != "" {
		d, err := openModel([]string{f.draftModel})
		if err != nil {
			return err
		}
		defer d.Close()
		if d.Model.Config.Vocab != b.Model.Config.Vocab {
			return fmt.Errorf("--model-draft has a vocabulary of %d tokens and the model one of %d; they must be the same", d.Model.Config.Vocab, b.Model.Config.Vocab)
		}
		small = &speculate.Files{Model: d.Model, Tensors: d}
	}
	o := speculate.Options{Cache: cache, Weights: weights, Inputs: pass.OnLoadInputs(f.quantization), Rate: f.accept, Drafts: f.drafts, Sequences: slices.Max(f.batches), Tokens: slices.Max(f.decodes), Chunk: cmp.Or(f.chunk, device.StepTokens(f.device.Backend))}
	m, err := speculate.New(speculate.Files{Model: b.Model, Tensors: b}, small, dev, profile, o)
	if err != nil {
		return err
	}
	defer m.Close()
	i := dev.Info()
	r.Device = fmt.Sprintf("%s (%s)", i.Name, i.Detail)
	for _, n := range f.batches {
		row, err := m.Run(n, f.runs)
		if err != nil {
			return fmt.Errorf("measuring %d sequences: %w", n, err)
		}
		r.Speculation = append(r.Speculation, row)
	}
	return nil
}

// printSpeculation prints the rows of speculative decoding.
func (f *benchFlags) printSpeculation(out io.Writer, r *benchReport) error {
	fmt.Fprintf(out, "%s on %s; tokens/s, drafted tokens accepted with a synthetic probability of %g\n", r.Model, r.Device, f.accept)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "batch\twithout\t")
	for _, n := range f.drafts {
		fmt.Fprintf(w, "drafts of %d\tgain\t", n)
	}
	fmt.Fprint(w, "by price\tgain\tof the best\taccepted a step\tpredicted\tdevice idle\t\n")
	for _, x := range r.Speculation {
		fmt.Fprintf(w, "%d\t%.1f\t", x.Sequences, x.Without)
		for _, fixed := range x.Fixed {
			fmt.Fprintf(w, "%.1f\t%.2f\t", fixed.Rate, fixed.Rate/x.Without)
		}
		predicted := "-"
		if x.Predicted > 0 {
			predicted = fmt.Sprintf("%.1f", x.Predicted)
		}
		fmt.Fprintf(w, "%.1f\t%.2f\t%.2f\t%.2f\t%s\t%.1f %%\t\n", x.Adaptive, x.Adaptive/x.Without, x.Adaptive/max(x.Best().Rate, x.Without), x.Accepted, predicted, 100*x.Idle)
	}
	return w.Flush()
}
