package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/bench/throughput"
	"github.com/ridge-llm/ridge/internal/device"
)

// measureRuns is how often each step is timed; the median counts.
const measureRuns = 9

// measure times every operation of the setting's two steps on this machine and prices the program that was timed.
func (r *rooflineReport) measure(ctx context.Context, arg string, s *rooflineSetting, o device.Options) error {
	if err := s.shape.parse(); err != nil {
		return err
	}
	if s.shape.number != "" {
		return errors.New("--measure times a file as it is, and --type prices another format; leave one of them (ridge convert changes a file)")
	}
	if err := s.check(); err != nil {
		return err
	}
	b, err := openModel(pathArgs(arg))
	if err != nil {
		return fmt.Errorf("--measure needs a model with its weights, such as ridge dummy makes up for a shape: %w", err)
	}
	defer b.Close()
	if longest := s.context + max(s.prompt, 1); longest > b.Model.Config.Context {
		return fmt.Errorf("--context %d and --prompt %d make sequences of %d tokens, and model %s was made for %d", s.context, s.prompt, longest, b.Name, b.Model.Config.Context)
	}
	dev, err := device.Open(o)
	if err != nil {
		return err
	}
	defer dev.Close()
	m, err := throughput.New(b.Model, b, []backend.Device{dev}, throughput.Options{Cache: s.shape.kvType, Quantization: s.shape.quantization, Tokens: s.context + s.prompt, Batch: s.batch, Chunk: max(s.prompt, s.batch)})
	if err != nil {
		return err
	}
	defer m.Close()
	pricing, err := m.Price(r.profile)
	if err != nil {
		return err
	}
	steps := s.steps()
	for _, test := range []throughput.Test{{Decode: 1, Depth: s.context, Batch: s.batch}, {Prompt: s.prompt, Depth: s.context, Batch: 1}} {
		took, err := m.Nodes(ctx, test, measureRuns)
		if err != nil {
			return err
		}
		kind := "prefill"
		if test.Decode > 0 {
			kind = "decode"
		}
		step := r.step(kind, "", pricing.Breakdown(steps[kind]))
		step.timed(m, took)
		r.Steps = append(r.Steps, step)
	}
	return nil
}

// timed adds what the operations of a step took.
func (s *rooflineStep) timed(m *throughput.Runner, took []time.Duration) {
	at := map[string]*rooflineRow{}
	for i := range s.Rows {
		at[s.Rows[i].Op] = &s.Rows[i]
	}
	for i, n := range m.Graph().Nodes {
		at[opName(n)].Measured += took[i].Seconds()
		s.Measured += took[i].Seconds()
	}
	for i := range s.Rows {
		if row := &s.Rows[i]; row.Measured > 0 {
			row.MeasuredOfRoof = row.Floor / row.Measured
		}
	}
}
