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
	fl.IntVar(&o.MaxWaiting, "max-waiting", 0, "longest queue; further requests are refused with status 429; 0: 4096")
	fl.IntVar(&o.StepTokens, "max-num-batched-tokens", 0, "most tokens of a step; 0: 512, on a GPU 2048, on each device of --sp or --dp")
	fl.Var((*targetFlag)(&o.TargetITL), "target-itl", "inter-token latency (ITL) that prefill chunks must leave to decoding requests, such as 50ms: chunks get the size that this allows; default: 5 times what a step takes with the decoding requests alone; 0: chunks fill the step")
	addPolicy(fl, (*sched.Policy)(&o.Policy), sched.FCFS)
	fl.DurationVar(&o.AgingBound, "aging-bound", 0, "longest time that --policy longest-prefix, or requests whose LoRA adapters are in slots, may be preferred to one that waits; 0: 10s")
	fl.Float64Var(&o.WaitingServedRatio, "waiting-served-ratio", 0, "start a prefill only when waiting requests are this many times the running ones, or have waited for a while, so that decoding is interrupted less often; 0: start at once")
	fl.StringVar(&o.PrefixIndex, "prefix-index", "radix", "prefix cache index: radix, hash, or none")
	fl.Var((*budgetFlag)(&o.KV), "kv-memory", "memory for the KV cache (on a GPU also for the LoRA adapters there), as 4GiB or as 50% of what is free after loading the weights; default: enough for --max-num-seqs requests of the whole context, at most 90%")
	fl.Var((*swapFlag)(&o.Swap), "swap-space", "GiB of host memory for the KV cache of preempted requests, used where swapping is predicted to be faster than recomputing; 0: always recompute. On a CPU it is the same memory, and a larger --kv-memory is better")
	k := &o.KVOffload
	fl.Var((*bytesFlag)(&k.HostMemory), "kv-host-memory", "host memory for what leaves the KV cache, from which prompts that begin alike have it copied back; default: none or, with --kv-disk or --kv-shared, what two requests of the whole context take")
	fl.StringVar(&k.Disk, "kv-disk", "", "folder that keeps what the KV cache has of prompts over restarts; read where that takes less than computing it again; it holds what prompts say, in another form")
	fl.Var((*bytesFlag)(&k.DiskSize), "kv-disk-size", "most bytes in --kv-disk; of more, the longest unused are removed; default: half of what is free")
	fl.StringVar(&k.Shared, "kv-shared", "", "folder as --kv-disk, of a file system that several servers share, or s3://BUCKET/PREFIX of a store with S3's API (variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL)")
	fl.Var((*bytesFlag)(&k.SharedSize), "kv-shared-size", "most bytes in --kv-shared; default: half of what is free")
	fl.Var((*writePolicyFlag)(&k.WriteBack), "kv-write-policy", "when --kv-disk and --kv-shared are written: write_through, as soon as tokens are computed, or write_back, when the KV cache has no room for them any more")
	fl.Var((*loadPolicyFlag)(&k.Always), "kv-load-policy", "when tokens are copied or read from where --kv-host-memory, --kv-disk and --kv-shared keep them: priced, where that is predicted to take less than computing them, or always")
	fl.Var((*shareFlag)(&o.KV.Total), "gpu-memory-utilization", "fraction of the device's memory for weights, activations and KV cache together, above 0 and up to 1; instead of --kv-memory")
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
			return fmt.Errorf("%q is not a percentage above 0 and up to 100", text)
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
		return fmt.Errorf("%q is not a size such as 16 (GiB), 512MiB or 1.5GB; 0 is none", text)
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
		return fmt.Errorf("%q is not a fraction above 0 and up to 1, such as 0.9", text)
	}
	*s = shareFlag(x)
	return nil
}
