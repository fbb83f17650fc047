package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/loadgen"
	"github.com/ridge-llm/ridge/internal/trace"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
	"github.com/ridge-llm/ridge/price/capacity"
)

// planFlags are the settings of plan.
type planFlags struct {
	shape            modelShapeFlags
	devices, dollars []string
	tensor, pipeline []int
	expert           []int
	sequence         []int
	method           string
	data             int
	trace, slo       string
	load             capacity.Workload
	batch            []int
	limits           capacity.Limits
	loras            pass.Adapters
	train            bool
	training         capacity.Training
	asJSON           bool
	plot             string
	promise          capacity.SLO
	quant            []string
	split            gpuLayers
	experts          cpuExperts
	apart            int     // servers, to be divided; 0: none
	chunk            int     // tokens of a prompt from which on it is computed apart
	link             float64 // GB/s
}

func planCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan [MODEL]",
		Short: "Estimate memory, latency and cost on any device",
		Long: `Plan estimates, from a model's config.json or GGUF metadata alone, what serving it needs: memory by purpose, the number and
length of sequences that fit, TTFT and ITL, tokens per second, and the cost of a million tokens. MODEL is a GGUF file, a Hugging Face
directory, a config.json, or the name of a well-known shape (ridge dummy --list); without it, the built-in model.

It tries every --device (by default every published GPU) in every layout that --tp, --pp, --ep and --sp give, and lists those that meet
--slo, the cheapest first (--dollars gives the price of an hour of a device; without it, the most tokens per second and device
first). For each of the others it prints the reason in a line. One device in one layout is shown in full, for several batch sizes.
The exit code is 1 if no layout meets --slo.

--quant compares ways to quantise the model on one device: memory, speed and, where ridge eval --save has put evaluations beside the model, quality; --plot
draws them, with those that none beats in all three.

--gpu-layers divides the model between the two --device, a GPU and a CPU: memory and speed of one sequence with so many of the last layers on the GPU, auto for as many as have room; --cpu-moe and
--n-cpu-moe leave experts of these on the CPU, which auto considers too (docs/parallel.md).

--disaggregate simulates a trace on so many servers that do all, and on every division of them into servers that compute prompts and servers that decode
(docs/disaggregation.md), and says whether separating pays.

--train estimates the memory of training with Adam in mixed precision instead.

Times are predicted by the cost model of docs/price.md at the device's published peaks; docs/published.md compares them with
figures that others measured.`,
		Example: `  ridge plan llama-3.1-70b --slo ttft=2s,itl=50ms
  ridge plan llama-3.1-70b --device h100-sxm --tp 4 --type BF16 --input 2048 --output 256 --plot plan.png
  ridge plan ./config.json --device h200,b200 --dollars h200=3.5,b200=5.5 --slo itl=30ms
  ridge plan llama-3.1-8b --device h200 --tp 1 --loras 200 --rank 16
  ridge plan llama-3.1-70b --type Q4_0 --device rtx4090,zen5 --gpu-layers auto
  ridge plan qwen3-30b-a3b --type Q4_0 --device rtx4090,zen5 --cpu-moe
  ridge plan llama-3.1-8b --device h200 --tp 1 --quant q4_0,gptq4,fp8,nvfp4,2:4 --plot quant.png
  ridge plan llama-3.1-8b --device h200 --tp 1 --disaggregate 4 --trace poisson:rate=24,n=1000,in=2048,out=256 --slo ttft=1s,itl=10ms
  ridge plan llama-3.1-8b --device a100-80gb --dp 8 --train --zero 3 --recompute`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.parse(); err != nil {
				return err
			}
			name := strings.Join(args, "")
			m, err := f.shape.model(name)
			if err != nil {
				return err
			}
			if given := cmd.Flags().Changed; !given("input") && !given("output") && f.trace == "" {
				f.shorten(m.Config.Context)
			}
			if cmd.Flags().Changed("gpu-layers") || f.experts != 0 {
				if !cmd.Flags().Changed("tp") {
					f.tensor = []int{1}
				}
				if !cmd.Flags().Changed("max-num-batched-tokens") { // a CPU's
					f.limits.StepTokens = device.StepTokens("cpu")
					f.limits.Sequences = f.limits.StepTokens
				}
				r, err := f.planSplit(cmd.Context(), cmp.Or(name, "the built-in model"), m)
				if err != nil {
					return err
				}
				return r.write(cmd.OutOrStdout(), f.asJSON)
			}
			if len(f.quant) > 0 {
				if !cmd.Flags().Changed("tp") {
					f.tensor = []int{1}
				}
				q, err := f.planQuant(cmd.Context(), cmp.Or(name, "the built-in model"), name, m)
				if err != nil {
					return err
				}
				return q.write(cmd.OutOrStdout(), f.plot, f.asJSON)
			}
			if f.apart > 0 {
				r, err := f.planApart(cmd.Context(), cmp.Or(name, "the built-in model"), m)
				if err != nil {
					return err
				}
				return r.print(cmd.OutOrStdout(), f.asJSON)
			}
			r, err := f.plan(cmd.Context(), cmp.Or(name, "the built-in model"), m)
			if err != nil {
				return err
			}
			if f.plot != "" {
				if err := r.draw(f.plot); err != nil {
					return err
				}
			}
			if f.asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				err = e.Encode(r)
			} else {
				err = r.print(cmd.OutOrStdout())
			}
			return errors.Join(err, r.noneMeets(f.slo))
		},
	}
	f.add(cmd)
	return cmd
}

// shorten reduces the default lengths to fit a model's context.
func (f *planFlags) shorten(context int) {
	if f.limits.Context > 0 {
		context = f.limits.Context
	}
	if f.load.Input+f.load.Output > context && context >= 4 {
		f.load.Output = min(f.load.Output, context/4)
		f.load.Input = min(f.load.Input, context-f.load.Output)
	}
}

func (f *planFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.devices, "device", nil, "devices: published names, profile files, or here (this machine, measured); default: all published GPUs")
	fl.StringSliceVar(&f.dollars, "dollars", nil, "price of an hour of a device, as name=2.5")
	addInts(fl, &f.tensor, "tp", "", []int{1, 2, 4, 8}, "tensor parallelism: devices that share every layer")
	addInts(fl, &f.pipeline, "pp", "", []int{1}, "pipeline parallelism: stages, each with a range of the layers")
	addInts(fl, &f.expert, "ep", "", []int{1}, "expert parallelism: devices among which the experts of each layer are divided, within a replica (up to --tp) or across replicas")
	addInts(fl, &f.sequence, "sp", "", []int{1}, "sequence parallelism: devices that divide the tokens of prompts, and the cache")
	addMethod(fl, &f.method)
	fl.IntVar(&f.data, "dp", 1, "data parallelism: replicas of the model")
	f.shape.add(cmd)
	fl.IntVar(&f.load.Input, "input", 1024, "tokens of a prompt; of a model with a short context at most three quarters of it by default")
	fl.IntVar(&f.load.Output, "output", 256, "tokens of an answer")
	fl.StringVar(&f.trace, "trace", "", "use the mean lengths of this trace: a file, or a spec such as poisson:rate=4,n=200,in=512,out=128")
	fl.StringVar(&f.slo, "slo", "", "latency limits to meet: ttft=1s,itl=50ms")
	addInts(fl, &f.batch, "batch", "", nil, "batch sizes to show; default: powers of two up to what fits")
	fl.IntVar(&f.limits.StepTokens, "max-num-batched-tokens", 2048, "most tokens of a step")
	fl.Float64Var(&f.limits.Utilization, "gpu-memory-utilization", 0.9, "part of a device's memory that may be used")
	fl.IntVar(&f.limits.Context, "max-model-len", 0, "longest sequence; 0: the model's")
	fl.IntVar(&f.loras.Slots, "loras", 0, "LoRA adapters that are on the device, of every matrix; the sequences have them in turn")
	fl.IntVar(&f.loras.Rank, "rank", 16, "rank of each of --loras")
	fl.StringSliceVar(&f.quant, "quant", nil, "ways to quantise the model, to be compared: "+strings.Join(quantNames(), ", ")+", and types of ridge convert")
	fl.Var(&f.split, "gpu-layers", "divide the model between a GPU and a CPU, both given as --device: how many of the last layers the GPU has, auto (as many as fit) or all")
	alias(fl, "n-gpu-layers", "gpu-layers")
	f.experts.add(fl)
	fl.IntVar(&f.apart, "disaggregate", 0, "servers, each with the devices of --tp, to be divided into those that compute prompts and those that decode, by simulation of --trace")
	fl.IntVar(&f.chunk, "prefill-from", 0, "with --disaggregate, tokens of a prompt from which on a server for prompts computes it")
	fl.Float64Var(&f.link, "kv-link", 0, "with --disaggregate, GB/s from each server for prompts to the others; 0: the device's link")
	fl.BoolVar(&f.train, "train", false, "plan for training")
	fl.IntVar(&f.training.Zero, "zero", 0, "with --train: ZeRO stage, 0 to 3")
	fl.BoolVar(&f.training.Recompute, "recompute", false, "with --train: recompute activations in the backward pass")
	fl.IntVar(&f.training.Sequences, "micro-batch", 1, "with --train: sequences of a micro-batch on a device")
	fl.IntVar(&f.training.Length, "length", 2048, "with --train: tokens of a sequence")
	addJSON(fl, &f.asJSON)
	fl.StringVar(&f.plot, "plot", "", "write a plot of throughput against latency to this .png or .svg file")
}

// maxDevices is the most devices of a layout in one direction.
const maxDevices = 1 << 16

// parse reads the flags that are more than numbers, and checks those that are.
func (f *planFlags) parse() (err error) {
	if f.trace != "" {
		t, err := trace.Load(f.trace)
		if err != nil {
			return err
		}
		if f.load, err = meanLengths(t); err != nil {
			return err
		}
	}
	switch {
	case f.load.Input < 1 || f.load.Output < 1:
		return fmt.Errorf("--input %d and --output %d: both must be 1 token or more", f.load.Input, f.load.Output)
	case f.load.Input > trace.MaxTokens || f.load.Output > trace.MaxTokens:
		return fmt.Errorf("--input %d and --output %d: at most %d tokens are possible", f.load.Input, f.load.Output, trace.MaxTokens)
	case f.train && slices.ContainsFunc(f.sequence, func(n int) bool { return n > 1 }):
		return errors.New("--sp divides prompts that are served; leave --train or --sp out")
	case f.method != "" && slices.Contains(f.sequence, 1):
		return errors.New("--sp-method is for --sp 2 or more")
	case f.train && f.loras.Slots > 0:
		return errors.New("--loras are adapters that are served; leave --train or --loras out")
	case f.limits.Context < 0:
		return fmt.Errorf("--max-model-len %d; 1 or more is possible, and 0 for the model's own", f.limits.Context)
	}
	for _, l := range []struct {
		flag string
		list []int
		most int
	}{{"tp", f.tensor, maxDevices}, {"pp", f.pipeline, maxDevices}, {"ep", f.expert, maxDevices}, {"sp", f.sequence, maxDevices}, {"dp", []int{f.data}, maxDevices}, {"batch", f.batch, maxStepSeqs}} {
		for _, n := range l.list {
			if n < 1 || n > l.most {
				return fmt.Errorf("--%s has %d; 1 to %d is possible", l.flag, n, l.most)
			}
		}
	}
	if f.loras.Slots == 0 {
		f.loras = pass.Adapters{}
	}
	if err := pass.CheckAdapters(f.loras); err != nil {
		return fmt.Errorf("--loras and --rank: %w", err)
	}
	f.limits.Sequences = f.limits.StepTokens
	if err := f.shape.parse(); err != nil {
		return err
	}
	if err := f.checkApart(); err != nil || f.apart > 0 {
		return err
	}
	f.promise, err = parseSLO(f.slo)
	return err
}

// meanLengths is the workload whose requests are all like a trace's mean.
func meanLengths(t *trace.Trace) (capacity.Workload, error) {
	n := len(t.Requests)
	if n == 0 {
		return capacity.Workload{}, fmt.Errorf("trace %s has no requests", t.Name)
	}
	var in, out int
	for _, r := range t.Requests {
		in += r.Input
		out += r.Output
	}
	return capacity.Workload{Input: (in + n/2) / n, Output: max((out+n/2)/n, 1)}, nil
}

// parseSLO reads "ttft=1s,itl=50ms".
func parseSLO(s string) (capacity.SLO, error) {
	if s == "" {
		return capacity.SLO{}, nil
	}
	o, err := loadgen.ParseSLO(s)
	if err == nil && (o.TPOT != 0 || o.E2E != 0) {
		err = fmt.Errorf("--slo %s: only ttft and itl can be planned for", s)
	}
	return capacity.SLO{TTFT: o.TTFT.Seconds(), ITL: o.ITL.Seconds()}, err
}

// profiles are the devices to try, with their prices.
func (f *planFlags) profiles(ctx context.Context) ([]*price.Profile, error) {
	var all []*price.Profile
	if len(f.devices) == 0 {
		all = slices.DeleteFunc(slices.Clone(price.Devices()), func(p *price.Profile) bool { return p.Link == 0 })
	}
	for _, name := range f.devices {
		p, err := profileNamed(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	for _, d := range f.dollars {
		name, value, _ := strings.Cut(d, "=")
		at := slices.IndexFunc(all, func(p *price.Profile) bool { return p.Name == name })
		cost, err := strconv.ParseFloat(value, 64)
		if err != nil || at < 0 {
			return nil, fmt.Errorf("--dollars has %q; a number for one of the devices is possible, as in h100-sxm=2.5", d)
		}
		with := *all[at]
		with.Dollars = cost
		if err := with.Validate(); err != nil {
			return nil, err
		}
		all[at] = &with
	}
	return all, nil
}
