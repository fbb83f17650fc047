package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/internal/regular"
)

// modelFlags chooses a model and where it runs.
type modelFlags struct {
	path     string
	template string // file
	ranks    rankFlags
	options  ridge.Options
}

func (f *modelFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.path, "model", "m", "", "short name (ridge search), GGUF file, Hugging Face directory, or ORG/REPO[:QUANT] on the hub; default: the built-in model")
	addDevice(cmd, &f.options.Backend, &f.options.Threads, &f.options.Deterministic)
	cmd.Flags().IntVarP(&f.options.Context, "ctx", "c", 0, "longest prompt and answer together, in tokens; 0: the model's own, 8192 at most")
	addKVType(cmd.Flags(), &f.options.Cache)
	addQuantization(cmd.Flags(), &f.options.Quantization)
	addSpeculation(cmd.Flags(), &f.options.Speculation)
	addEarlyExit(cmd.Flags(), &f.options.EarlyExit)
	addLayout(cmd.Flags(), &f.options.Layout)
	(*gpuLayers)(&f.options.GPULayers).add(cmd.Flags())
	(*cpuExperts)(&f.options.CPUExperts).add(cmd.Flags())
	(*expertCache)(&f.options.ExpertCache).add(cmd.Flags())
	cmd.Flags().StringVar(&f.template, "chat-template", "", "file with a chat template to use in place of the model's own")
}

// addKVType adds the flag of the KV cache's type.
func addKVType(fl *pflag.FlagSet, to *string) {
	fl.StringVar(to, "kv-type", "", "type of cached keys and values: f16, bf16, f32, int8, int4, fp8 (GPU); default: f16; --kv-cache-dtype is the same")
	alias(fl, "kv-cache-dtype", "kv-type")
}

// addQuantization adds vLLM's flag of the same name.
func addQuantization(fl *pflag.FlagSet, to *string) {
	fl.StringVarP(to, "quantization", "q", "", "quantise weights to eight or four bits on load: fp8, int8, int4, w8a8 or llm.int8; default: as the file has them")
}

// load loads the model, from the hub if it is there and not here, and says so when it is the built-in one.
func (f *modelFlags) load(ctx context.Context) (*ridge.Model, error) {
	return f.loadWith(ctx, ridge.Load)
}

// loadWith is load by a function of the library's.
func (f *modelFlags) loadWith(ctx context.Context, load func(string, ridge.Options) (*ridge.Model, error)) (*ridge.Model, error) {
	if f.path == "" {
		fmt.Fprintln(os.Stderr, "ridge: no model named, using the built-in one (small stories, the vocabulary of LLM inference); choose another with --model")
	}
	if f.template != "" {
		text, err := regular.ReadFile(f.template)
		if err != nil {
			return nil, fmt.Errorf("--chat-template: %w", err)
		}
		f.options.Template = string(text)
	}
	path, err := fetchedPath(ctx, f.path, f.options.Backend)
	if err != nil {
		return nil, err
	}
	f.options.Note = func(text string) { fmt.Fprintln(os.Stderr, "ridge:", text) }
	defer restCollector()()
	return load(path, f.options)
}

// samplingFlags are the settings of sampling; those not given are the model's defaults.
type samplingFlags struct {
	greedy      bool
	temperature float64
	topK        int
	topP, minP  float64
	repetition  float64
	presence    float64
	frequency   float64
	llama       llamaFlags
	seed        int64
	maxTokens   int
	stop        []string
	ignoreEnd   bool
	diffusion   ridge.Diffusion
}

func (f *samplingFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.greedy, "greedy", false, "always take the likeliest token; the same as --temperature 0")
	fl.Float64Var(&f.temperature, "temperature", 0, "divide logits by this; 0 is greedy; default: what the model recommends")
	fl.IntVar(&f.topK, "top-k", 0, "choose among the k likeliest tokens; 0: all")
	fl.Float64Var(&f.topP, "top-p", 1, "choose among the likeliest tokens that make up this probability")
	fl.Float64Var(&f.minP, "min-p", 0, "drop tokens less likely than this times the likeliest")
	fl.Float64Var(&f.repetition, "repetition-penalty", 1, "divide the logits of tokens seen in prompt or answer by this")
	fl.Float64Var(&f.presence, "presence-penalty", 0, "subtract this from the logits of tokens of the answer")
	fl.Float64Var(&f.frequency, "frequency-penalty", 0, "subtract this for each occurrence in the answer")
	fl.Int64Var(&f.seed, "seed", -1, "seed of sampling: the same seed gives the same text; -1: random")
	fl.IntVarP(&f.maxTokens, "max-tokens", "n", 0, "longest answer, in tokens; 0: until it ends or the context is full")
	fl.StringArrayVar(&f.stop, "stop", nil, "end the answer before this text; can be given several times")
	fl.BoolVar(&f.ignoreEnd, "ignore-eos", false, "go on after the model's end token")
	addDiffusion(fl, &f.diffusion)
	f.llama.add(fl)
}

// params is the model's defaults with what was given on the command line.
func (f *samplingFlags) params(cmd *cobra.Command, m *ridge.Model) (ridge.Params, error) {
	p := m.Defaults()
	given := cmd.Flags().Changed
	if f.greedy {
		if given("temperature") && f.temperature != 0 {
			return p, fmt.Errorf("--greedy and --temperature %g contradict each other", f.temperature)
		}
		p = ridge.Greedy()
	}
	s := &p.Sampling
	for name, set := range map[string]func(){
		"temperature":        func() { s.Temperature = f.temperature },
		"top-k":              func() { s.TopK = f.topK },
		"top-p":              func() { s.TopP = f.topP },
		"min-p":              func() { s.MinP = f.minP },
		"repetition-penalty": func() { s.RepetitionPenalty = f.repetition },
		"presence-penalty":   func() { s.PresencePenalty = f.presence },
		"frequency-penalty":  func() { s.FrequencyPenalty = f.frequency },
	} {
		if given(name) {
			set()
		}
	}
	if err := f.llama.set(s, m); err != nil {
		return p, err
	}
	if s.Seed = uint64(f.seed); f.seed < 0 {
		s.Seed = rand.Uint64()
	}
	p.MaxTokens, p.Stop, p.IgnoreEnd, p.Diffusion = f.maxTokens, f.stop, f.ignoreEnd, f.diffusion
	return p, nil
}
