package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/engine/sched"
	"github.com/ridge-llm/ridge/internal/size"
)

// addEngine adds the settings of an engine that serves many.
func addEngine(cmd *cobra.Command, o *ridge.Options) {
	fl := cmd.Flags()
	fl.IntVar(&o.Parallel, "max-num-seqs", 0, "requests that run at once; 0: 8; --parallel is the same")
	alias(fl, "parallel", "max-num-seqs")
	fl.IntVar(&o.MaxWaiting, "max-waiting", 0, "requests that wait at most, more get 429; 0: 4096")
	fl.IntVar(&o.StepTokens, "max-num-batched-tokens", 0, "tokens in a step; 0: 512, on a GPU 2048")
	fl.DurationVar(&o.TargetITL, "target-itl", 0, "time between two tokens of an answer that prompts beside it should leave, such as 50ms: they are read in chunks of the size that this allows; 0: chunks as large as a step")
	addPolicy(fl, (*sched.Policy)(&o.Policy), sched.FCFS)
	fl.DurationVar(&o.AgingBound, "aging-bound", 0, "how long --policy longest-prefix may let a request wait for others with more in the cache; 0: 10s")
	fl.Float64Var(&o.WaitingServedRatio, "waiting-served-ratio", 0, "let requests wait until there are so many times as many as are running, for a while: answers are interrupted less often; 0: never")
	fl.StringVar(&o.PrefixIndex, "prefix-index", "radix", "how cached beginnings of prompts are found: radix, hash, or none")
	fl.Var((*budgetFlag)(&o.KV), "kv-memory", "memory for keys and values, as 4GiB or as 50% of what is free beside the weights; default: enough for --max-num-seqs requests of the whole context, but no more than 90%")
	fl.Var((*swapFlag)(&o.Swap), "swap-space", "GiB of host memory to which requests move their keys and values when others need the pages, if that is priced below computing them again; 0: never. On a CPU it is the same memory, and a larger --kv-memory does more good")
	fl.Var((*shareFlag)(&o.KV.Total), "gpu-memory-utilization", "part of the device's memory for weights, activations and cache together, above 0 and up to 1, in place of --kv-memory")
}

// alias gives a flag a second name.
func alias(fl *pflag.FlagSet, second, name string) {
	others := fl.GetNormalizeFunc()
	fl.SetNormalizeFunc(func(fl *pflag.FlagSet, given string) pflag.NormalizedName {
		if given == second {
			given = name
		}
		return others(fl, given)
	})
}

// budgetFlag reads a size or a percentage.
type budgetFlag ridge.Budget

// Type implements pflag.Value.
func (*budgetFlag) Type() string { return "size" }

// String implements pflag.Value.
func (b *budgetFlag) String() string {
	switch {
	case b.Bytes > 0:
		return fmt.Sprintf("%dB", b.Bytes)
	case b.Part > 0:
		return fmt.Sprintf("%g%%", 100*b.Part)
	}
	return ""
}

// Set implements pflag.Value.
func (b *budgetFlag) Set(text string) error {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || !(percent > 0 && percent <= 100) {
			return fmt.Errorf("%q is no percentage above 0 and up to 100", text)
		}
		b.Part, b.Bytes = percent/100, 0
		return nil
	}
	n, err := size.Parse(text)
	b.Bytes, b.Part = n, 0
	return err
}

// swapFlag reads a size whose unit is GiB unless it says otherwise, as vLLM's flag of that name does.
type swapFlag int64

// Type implements pflag.Value.
func (*swapFlag) Type() string { return "GiB" }

// String implements pflag.Value.
func (s *swapFlag) String() string { return strconv.FormatFloat(float64(*s)/(1<<30), 'g', -1, 64) }

// Set implements pflag.Value.
func (s *swapFlag) Set(text string) error {
	number, err := strconv.ParseFloat(text, 64)
	if err == nil && number == 0 {
		*s = 0
		return nil
	}
	n, failed := size.Parse(text)
	if err == nil {
		n, failed = size.Parse(text + "GiB")
	}
	if *s = swapFlag(n); failed != nil {
		return fmt.Errorf("%q is no size such as 16 (GiB), 512MiB or 1.5GB; 0 is none", text)
	}
	return nil
}

// shareFlag reads a part of something.
type shareFlag float64

// Type implements pflag.Value.
func (*shareFlag) Type() string { return "part" }

// String implements pflag.Value.
func (s *shareFlag) String() string {
	if *s == 0 {
		return ""
	}
	return fmt.Sprint(float64(*s))
}

// Set implements pflag.Value.
func (s *shareFlag) Set(text string) error {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x > 0 && x <= 1) {
		return fmt.Errorf("%q is no part such as 0.9; more than 0 and at most 1 is possible", text)
	}
	*s = shareFlag(x)
	return nil
}
