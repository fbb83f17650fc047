package main

import (
	"cmp"
	"fmt"
	"runtime"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/internal/quantize/imatrix"
	"github.com/ridge-llm/ridge/pass"
)

// addLayout adds the flags that spread a model over devices.
func addLayout(fl *pflag.FlagSet, o *ridge.Layout) {
	fl.IntVar(&o.Tensor, "tp", 1, "tensor parallelism: devices that share every layer; --tensor-parallel-size is the same")
	alias(fl, "tensor-parallel-size", "tp")
	fl.IntVar(&o.Pipeline, "pp", 1, "pipeline parallelism: stages, each with a range of the layers; --pipeline-parallel-size is the same")
	alias(fl, "pipeline-parallel-size", "pp")
	fl.IntVar(&o.Expert, "ep", 1, "expert parallelism: devices of --tp, or all of --tp × --sp or --tp × --dp, among which the experts of each layer are divided")
	fl.Var(overAll{o}, "enable-expert-parallel", "--ep of all devices that compute a layer, as vLLM has it")
	fl.Lookup("enable-expert-parallel").NoOptDefVal = "true"
	fl.IntVar(&o.Data, "dp", 1, "data-parallel attention: replicas of all but the experts, each with requests of its own; experts are divided among all of --tp × --dp. --data-parallel-size is the same")
	alias(fl, "data-parallel-size", "dp")
	addSequence(fl, &o.Sequence, &o.SequenceMethod)
	fl.StringVar(&o.ExpertLoad, "expert-load", "", "with --dp, with --ep over all of --sp, or with --expert-cache, for what it begins with: place experts by how many rows came to them, as counted in a file of importances (llama.cpp's imatrix, ridge quantize --imatrix-out); default: in order")
	fl.IntVar(&o.RedundantExperts, "redundant-experts", 0, "with --dp, or --ep over all of --sp: how many experts each device has beside an equal share; hot ones are on several devices then")
}

// overAll is the flag that divides experts among all devices.
type overAll struct{ layout *ridge.Layout }

func (a overAll) String() string {
	return strconv.FormatBool(a.layout != nil && a.layout.Expert == ridge.AllDevices)
}

func (a overAll) Type() string { return "bool" }

func (a overAll) Set(text string) error {
	all, err := strconv.ParseBool(text)
	if err == nil && all {
		a.layout.Expert = ridge.AllDevices
	}
	return err
}

// addSequence adds the flags that divide the tokens of steps over devices.
func addSequence(fl *pflag.FlagSet, devices *int, method *string) {
	fl.IntVar(devices, "sp", 1, "sequence parallelism: devices that divide the tokens of prompts, and the cache")
	addMethod(fl, method)
}

func addMethod(fl *pflag.FlagSet, method *string) {
	fl.StringVar(method, "sp-method", "", "how devices of --sp attend: ulysses (by heads, after an all-to-all) or ring (by tokens: Ring Attention, and a cache split by tokens); default: whichever is better")
}

// passLayout is a layout as the passes over graphs take it.
func passLayout(l ridge.Layout) pass.Layout {
	return pass.Layout{Tensor: max(l.Tensor, 1), Pipeline: max(l.Pipeline, 1), Data: max(l.Data, 1), Expert: l.Experts(), Sequence: l.Sequence, Method: l.SequenceMethod}
}

// expertLoads is what experts are placed by.
func expertLoads(l ridge.Layout) (pass.ExpertLoads, error) {
	loads := pass.ExpertLoads{Extra: l.RedundantExperts}
	if l.ExpertLoad == "" {
		return loads, nil
	}
	m, err := imatrix.Read(l.ExpertLoad)
	if err != nil {
		return loads, fmt.Errorf("--expert-load: %w", err)
	}
	loads.Counts = m.ExpertCounts()
	return loads, nil
}

// openDevices opens the devices of a layout, all of one backend. Those on a CPU share its threads.
func openDevices(o device.Options, l ridge.Layout) ([]backend.Device, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	if n := l.Devices(); n > 1 && !device.OnGPU(o.Backend) {
		o.Threads = max(cmp.Or(o.Threads, runtime.GOMAXPROCS(0))/n, 1)
	}
	var all []backend.Device
	for o.Number = range l.Devices() {
		d, err := device.Open(o)
		if err != nil {
			closeDevices(all)
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

func closeDevices(devices []backend.Device) {
	for _, d := range devices {
		d.Close()
	}
}
