package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/bench/speculate"
	"github.com/ridge-llm/ridge/bench/throughput"
	"github.com/ridge-llm/ridge/compile/earlyexit"
	"github.com/ridge-llm/ridge/internal/calibrate"
	"github.com/ridge-llm/ridge/internal/convert"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/pass"
)

// benchFlags say what to measure.
type benchFlags struct {
	model, shape, number string
	device               device.Options
	layout               ridge.Layout
	gpuLayers            gpuLayers
	cpuExperts           cpuExperts
	expertCache          expertCache
	kvType, quantization string
	chunk                int // tokens of a step at most; 0: the backend's own
	threads              []int
	prompts, decodes     []int
	depths, batches      []int
	runs                 int
	loras                []int // adapters that the sequences have
	rank                 int   // of each
	slots                int   // for adapters in the program at least
	divided              division
	ops, asJSON          bool
	exits                []string // as --early-exit has them
	accept               float64  // synthetic acceptance rate; -1: nothing is drafted
	drafts               []int    // tokens of drafts that are verified in every step, and the most of adaptive ones
	draftModel           string
}

// benchReport is what bench prints as JSON: one for each number of threads.
type benchReport struct {
	Model  string           `json:"model"`
	Device string           `json:"device"`
	Peaks  backend.Peaks    `json:"peaks"`
	Rows   []throughput.Row `json:"rows,omitempty"`
	Ops    []benchOps       `json:"ops,omitempty"`

	Speculation []speculate.Row `json:"speculation,omitempty"`
}

type benchOps struct {
	Test throughput.Test `json:"test"`
	Name string          `json:"name"`
	Ops  []throughput.Op `json:"ops"`
}

func benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure tokens per second of a model, beside the machine's limit",
		Long: `Bench measures tokens per second: pp512 reads a prompt of 512 tokens, tg128 decodes 128 tokens one by one, "@ d4096" with
4096 tokens in the cache before, batch with so many sequences at once. Each figure is the median of several runs with
random tokens, with --loras 16 sequences have 16 random LoRA adapters in turn, of every matrix but the head. Beside it are the limit of the same machine, measured in the same minute (peak arithmetic, weights and cache at
memory bandwidth), the fraction of it that was reached and, once ridge calibrate has run, the predicted rate.

--early-exit measures decoding with tokens that leave the model early, beside decoding without, and says how many layers they went through: given several times, several thresholds.
Tokens are random, so how many leave is not what texts would do, which ridge eval --early-exit says; a threshold of 0 has all leave at the first exit, and one of 1 nearly none.

--ops times every kernel of the last step of each test instead.

--speculate measures speculative decoding with a synthetic acceptance instead: the engine decodes --decode tokens of given answers with --batch sequences,
and each drafted token is accepted with this probability, whatever the model; nothing is sampled. It prints the rate without drafts, with --draft-max tokens
drafted in every step (several lengths, several columns), with as many as the price of steps says are worth it, and that as a share of the fastest of the others. With --model-draft that model is run for every draft and takes its time;
else drafting takes none.`,
		Example: `  ridge bench -m model.gguf
  ridge bench -m model.gguf -p 512 -n 128 -d 0,4096 -b 1,2,4,8,16,32 -t 1,2 --json
  ridge bench -m model.gguf -p 512 -b 16 --loras 0,1,16 --rank 16
  ridge bench -m model.gguf -b 1,8,64 -n 128 --speculate 0.8 --draft-max 2,3,5,8
  ridge bench -p 0 -b 1,8 --early-exit layers=4,threshold=0 --early-exit layers=4,threshold=0.9
  ridge bench --shape llama-3.2-1b --type Q4_0 --ops`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.shape == "" && cmd.Flags().Changed("type") {
				return errors.New("--type is the format of --shape's random weights; a file has its own (ridge convert changes it)")
			}
			path, done, err := f.file(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			return f.run(cmd.Context(), cmd.OutOrStdout(), path)
		},
	}
	cmd.AddCommand(benchServeCommand())
	fl := cmd.Flags()
	fl.StringVarP(&f.model, "model", "m", "", "GGUF file or Hugging Face directory; default: the built-in model")
	fl.StringVar(&f.shape, "shape", "", "measure random weights in this shape instead; ridge dummy --list names them")
	fl.StringVar(&f.number, "type", "Q4_0", "number format of --shape's matrices")
	fl.StringVar(&f.device.Backend, "backend", "", "where to compute: cpu or cuda (cuda:1 is the second GPU); default cpu")
	fl.StringVar(&f.kvType, "kv-type", "f16", "type of cached keys and values: f16, bf16, f32, int8, int4, fp8 (GPU)")
	addQuantization(fl, &f.quantization)
	addLayout(fl, &f.layout)
	f.gpuLayers.add(fl)
	f.cpuExperts.add(fl)
	f.expertCache.add(fl)
	fl.StringVar(&f.device.Transport, "rank-transport", "", "what the GPUs of a layout exchange activations through: nccl, or peer, Ridge's own kernels; default: these where GPUs reach each other, and else NCCL")
	addInts(fl, &f.threads, "threads", "t", []int{0}, "CPU threads; 0: as many as this process may use")
	addInts(fl, &f.prompts, "prompt", "p", []int{512}, "lengths of prompts to read; 0: none")
	addInts(fl, &f.decodes, "decode", "n", []int{128}, "numbers of tokens to decode; 0: none")
	addInts(fl, &f.depths, "depth", "d", []int{0}, "tokens in the cache before")
	addInts(fl, &f.batches, "batch", "b", []int{1}, "sequences that decode together")
	addInts(fl, &f.loras, "loras", "", []int{0}, "LoRA adapters that the sequences have, in turn; 0: none")
	fl.IntVar(&f.rank, "rank", 16, "rank of each of --loras")
	fl.IntVar(&f.slots, "max-loras", 0, "slots for adapters at least, as ridge serve has them; with --loras 0 what steps without adapters cost there")
	fl.IntVarP(&f.runs, "runs", "r", 3, "runs of each test, after one that does not count")
	fl.IntVar(&f.chunk, "chunk", 0, "most tokens of a step; 0: what ridge serve starts with, 512 on the CPU and 2048 on a GPU")
	fl.Float64Var(&f.accept, "speculate", -1, "measure speculative decoding with this synthetic acceptance rate of a drafted token, 0 to 1")
	addInts(fl, &f.drafts, "draft-max", "", []int{5}, "with --speculate, most tokens of a draft; of several lengths each is measured, and the price decides up to the longest")
	fl.StringVar(&f.draftModel, "model-draft", "", "with --speculate, draft model whose time counts: GGUF file or Hugging Face directory; default: drafting takes no time")
	fl.StringArrayVar(&f.exits, "early-exit", nil, "measure decoding with exits after these layers too, as layers=4,6,threshold=0.9; may be given several times")
	fl.BoolVar(&f.ops, "ops", false, "time each kernel of a step")
	addJSON(fl, &f.asJSON)
	return cmd
}

// file is the model to measure: the one named, or one of random weights, which done removes.
func (f *benchFlags) file(ctx context.Context) (path string, done func(), err error) {
	if f.shape == "" {
		return f.model, func() {}, nil
	}
	if f.model != "" {
		return "", nil, errors.New("give either --model or --shape")
	}
	t, err := convert.ParseType(f.number)
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "ridge-bench-")
	if err != nil {
		return "", nil, err
	}
	done = func() { os.RemoveAll(dir) }
	path = filepath.Join(dir, f.shape+"-"+f.number+".gguf")
	if _, err := convert.Dummy(ctx, f.shape, path, convert.Options{Type: t}); err != nil {
		done()
		if errors.Is(err, convert.ErrFull) {
			err = fmt.Errorf("%w (TMPDIR says where)", err)
		}
		return "", nil, err
	}
	return path, done, nil
}

// check refuses numbers that measure nothing, and drops the zeroes with which llama-bench leaves out a kind of test.
func (f *benchFlags) check() error {
	for name, list := range map[string][]int{"--prompt": f.prompts, "--decode": f.decodes, "--depth": f.depths, "--threads": f.threads, "--loras": f.loras} {
		if n := slices.Min(list); n < 0 {
			return fmt.Errorf("%s has %d; 0 or more is possible", name, n)
		}
	}
	zero := func(n int) bool { return n == 0 }
	f.prompts, f.decodes = slices.DeleteFunc(f.prompts, zero), slices.DeleteFunc(f.decodes, zero)
	switch n := slices.Min(f.batches); {
	case n < 1:
		return fmt.Errorf("--batch has %d; 1 or more is possible", n)
	case f.runs < 1:
		return fmt.Errorf("--runs is %d; 1 or more is possible", f.runs)
	case f.chunk < 0:
		return fmt.Errorf("--chunk is %d; 0 or more is possible", f.chunk)
	case f.layout.Devices() > 1 && f.ops:
		return errors.New("--ops times kernels on one device; leave out --tp, --pp and --sp")
	case (f.gpuLayers != 0 || f.cpuExperts != 0) && (f.ops || f.accept != -1 || len(f.exits) > 0):
		return errors.New("--ops, --speculate and --early-exit measure one device; leave out --gpu-layers, --cpu-moe and --n-cpu-moe")
	case f.layout.Devices() > 1 && f.accept != -1:
		return errors.New("--speculate measures one device; leave out --tp, --pp and --sp")
	case len(f.exits) > 0 && (f.layout.Devices() > 1 || f.ops || f.accept != -1 || !slices.Equal(f.loras, []int{0}) || f.slots > 0 || len(f.decodes) == 0):
		return errors.New("--early-exit measures decoding on one device without adapters; leave out --tp, --pp, --sp, --ops, --speculate, --loras and --max-loras, and --decode 0")
	case len(f.prompts)+len(f.decodes) == 0:
		return errors.New("--prompt 0 and --decode 0 leave nothing to measure")
	}
	return nil
}

// tests is every combination that was asked for, with so many adapters; with exits those of decoding.
func (f *benchFlags) tests(loras int, exits string) []throughput.Test {
	var all []throughput.Test
	for _, d := range f.depths {
		for _, p := range f.prompts {
			if exits == "" {
				all = append(all, throughput.Test{Prompt: p, Depth: d, Batch: 1, LoRAs: min(loras, 1)})
			}
		}
		for _, n := range f.decodes {
			for _, b := range f.batches {
				all = append(all, throughput.Test{Decode: n, Depth: d, Batch: b, LoRAs: min(loras, b), Exits: exits})
			}
		}
	}
	return all
}

func (f *benchFlags) run(ctx context.Context, out io.Writer, path string) error {
	if err := f.check(); err != nil {
		return err
	}
	var reports []*benchReport
	for _, threads := range f.threads {
		r, err := f.measure(ctx, path, threads)
		if err != nil {
			return err
		}
		if reports = append(reports, r); f.asJSON {
			continue
		}
		if f.accept != -1 {
			err = f.printSpeculation(out, r)
		} else {
			err = r.print(out)
		}
		if err != nil {
			return err
		}
	}
	if f.asJSON {
		return json.NewEncoder(out).Encode(reports)
	}
	return nil
}

// measure runs all tests with a number of threads.
func (f *benchFlags) measure(ctx context.Context, path string, threads int) (*benchReport, error) {
	b, err := openModel(pathArgs(path))
	if err != nil {
		return nil, err
	}
	defer b.Close()
	f.device.Threads = threads
	r := &benchReport{Model: b.Name}
	if f.accept != -1 {
		return r, f.speculation(b, r)
	}
	for _, loras := range f.loras {
		if err := f.measureWith(ctx, b, loras, "", r); err != nil {
			return nil, err
		}
	}
	for _, exits := range f.exits {
		if err := f.measureWith(ctx, b, 0, exits, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// measureWith adds the rows of tests with so many adapters. Without adapters the program has no nodes for them: each number has a program
// of its own, on a device of its own, since weights stay on a device as long as it is open.
func (f *benchFlags) measureWith(ctx context.Context, b *modeldir.Dir, loras int, exits string, r *benchReport) error {
	devices, divided, err := f.gpuLayers.open(f.device, f.layout, f.cpuExperts, f.expertCache, b.Model)
	if err != nil {
		return err
	}
	defer closeDevices(devices)
	f.divided = divided
	dev := devices[0]
	m, err := f.bench(b, devices, loras, exits)
	if err != nil {
		return err
	}
	defer m.Close()
	// A machine that was calibrated is told what to expect; others are not kept waiting for it.
	if p, err := calibrate.Cached(dev); p != nil && err == nil && len(devices) == 1 {
		if err := m.Expect(p); err != nil {
			return err
		}
	}
	r.Device, r.Peaks = described(devices, divided), m.Peaks()
	for _, t := range f.tests(loras, exits) {
		if f.ops {
			ops, err := m.Ops(ctx, t, f.runs)
			if err != nil {
				return err
			}
			r.Ops = append(r.Ops, benchOps{t, t.Name(), ops})
			continue
		}
		row, err := m.Run(ctx, t, f.runs)
		if err != nil {
			return err
		}
		r.Rows = append(r.Rows, row)
	}
	return nil
}

// bench compiles the model for the largest test.
func (f *benchFlags) bench(b *modeldir.Dir, devices []backend.Device, loras int, exits string) (*throughput.Runner, error) {
	cache, err := device.CacheType(f.device.Backend, f.kvType)
	if err != nil {
		return nil, err
	}
	o := throughput.Options{Cache: cache, Quantization: f.quantization, Batch: slices.Max(f.batches), Chunk: min(cmp.Or(f.chunk, f.gpuLayers.stepTokens(f.device.Backend, f.cpuExperts)), slices.Max(slices.Concat(f.prompts, f.depths, []int{1})))}
	if slots := max(loras, f.slots); slots != 0 {
		o.LoRAs = pass.Adapters{Slots: slots, Rank: f.rank}
		if err := pass.CheckAdapters(o.LoRAs); err != nil {
			return nil, fmt.Errorf("--loras, --max-loras and --rank: %w", err)
		}
	}
	if exits != "" {
		var e ridge.EarlyExit
		if err := (*earlyExitFlag)(&e).Set(exits); err != nil {
			return nil, fmt.Errorf("--early-exit: %w", err)
		}
		o.EarlyExit = (*earlyexit.Options)(&e)
	}
	o.Tokens = slices.Max(f.depths) + slices.Max(slices.Concat(f.prompts, f.decodes))
	if trained := b.Model.Config.Context; o.Tokens > trained {
		return nil, fmt.Errorf("the tests need sequences of %d tokens, and model %s was made for %d", o.Tokens, b.Name, trained)
	}
	o.Layout = passLayout(f.layout)
	if o.Loads, err = expertLoads(f.layout); err != nil {
		return nil, err
	}
	o.Last, o.Experts, o.Slots = f.divided.last, f.divided.experts, f.divided.slots
	return throughput.New(b.Model, b, devices, o)
}

// pathArgs is a path as arguments for openModel, to which none means the built-in model.
func pathArgs(path string) []string {
	if path == "" {
		return nil
	}
	return []string{path}
}
