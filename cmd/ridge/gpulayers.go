package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// gpuLayers is --gpu-layers: a number of layers, auto or all, as ridge.Options.GPULayers has them.
type gpuLayers ridge.GPULayers

func (n *gpuLayers) add(fl *pflag.FlagSet) {
	fl.Var(n, "gpu-layers", "with a GPU as --backend, how many of the last layers it has, and the CPU those before: a number, auto (as many as fit) or all; -ngl and --n-gpu-layers are the same; default: all")
	alias(fl, "n-gpu-layers", "gpu-layers")
}

// Type implements pflag.Value.
func (*gpuLayers) Type() string { return "layers" }

// String implements pflag.Value.
func (n *gpuLayers) String() string {
	switch *n {
	case 0:
		return ""
	case gpuLayers(ridge.NoGPULayers):
		return "0"
	case gpuLayers(ridge.AutoGPULayers):
		return "auto"
	}
	return strconv.Itoa(int(*n))
}

// Set implements pflag.Value.
func (n *gpuLayers) Set(text string) error {
	switch text {
	case "all", "":
		*n = 0
		return nil
	case "auto":
		*n = gpuLayers(ridge.AutoGPULayers)
		return nil
	}
	layers, err := strconv.Atoi(text)
	switch {
	case err != nil || layers < 0:
		return fmt.Errorf("%q is no number of layers, 0 or more, and neither auto nor all", text)
	case layers == 0:
		*n = gpuLayers(ridge.NoGPULayers)
	default:
		*n = gpuLayers(layers)
	}
	return nil
}

// llamaShort has -ngl mean --gpu-layers, and -cmoe and -ncmoe mean --cpu-moe and --n-cpu-moe, as llama.cpp's programs do: flags of one dash have one letter else.
func llamaShort(args []string) []string {
	out := make([]string, 0, len(args))
	for i, a := range args {
		if a == "--" {
			return append(out, args[i:]...)
		}
		for short, long := range map[string]string{"-ngl": "--gpu-layers", "-ncmoe": "--n-cpu-moe", "-cmoe": "--cpu-moe"} {
			if rest, ok := strings.CutPrefix(a, short); ok && (rest == "" || rest[0] == '=') {
				a = long + rest
			}
		}
		out = append(out, a)
	}
	return out
}

// division is what the second of two devices, of another backend than the first, has of a model: so many last layers, without the experts of the first so many of the model. The zero value: the
// devices are of one backend.
type division struct {
	last, experts int
	slots         int // for experts of each such layer
}

// open opens the devices that compute a model: those of a layout, or the CPU and the GPU.
func (n gpuLayers) open(o device.Options, l ridge.Layout, experts cpuExperts, cache expertCache, m *model.Model) (devices []backend.Device, d division, err error) {
	if n == 0 && experts == 0 {
		devices, err = openDevices(o, l)
		return devices, d, err
	}
	if err := ridge.GPULayers(n).Check(o.Backend, l); err != nil {
		return nil, d, err
	}
	if err := ridge.CPUExperts(experts).Check(o.Backend, l, ridge.GPULayers(n)); err != nil {
		return nil, d, err
	}
	g, err := m.Graph(model.Options{Act: graph.F32, Cache: graph.F16})
	if err != nil {
		return nil, d, err
	}
	first := o
	first.Backend = "cpu"
	switch {
	case n == gpuLayers(ridge.AutoGPULayers):
		return nil, d, fmt.Errorf("--gpu-layers auto chooses by the cache that ridge run and ridge serve keep; give a number of the %d layers here, 0 or all", g.Layers())
	case n == gpuLayers(ridge.NoGPULayers):
		devices, err = openDevices(first, l)
		return devices, d, err
	case (n == 0 || int(n) >= g.Layers()) && pass.ApartFrom(g, g.Layers(), ridge.CPUExperts(experts).Of(g.Layers())) == 0:
		devices, err = openDevices(o, l)
		return devices, d, err
	case n == 0:
		n = gpuLayers(g.Layers())
	}
	d = division{last: min(int(n), g.Layers()), experts: ridge.CPUExperts(experts).Of(g.Layers())}
	d.experts = pass.ApartFrom(g, d.last, d.experts)
	if d.slots, err = cache.slots(g, d); err != nil {
		return nil, division{}, err
	}
	if devices, err = openDevices(first, l); err != nil {
		return nil, d, err
	}
	second, err := openDevices(o, l)
	if err != nil {
		closeDevices(devices)
		return nil, d, err
	}
	return append(devices, second...), d, nil
}

// stepTokens is how many rows a step has at most by default.
func (n gpuLayers) stepTokens(name string, experts cpuExperts) int {
	if n != 0 || experts != 0 {
		name = "cpu"
	}
	return device.StepTokens(name)
}

// described names devices, and what the last has where they are of two backends.
func described(devices []backend.Device, d division) string {
	i := devices[0].Info()
	text := fmt.Sprintf("%s (%s)", i.Name, i.Detail)
	if d.last > 0 {
		i = devices[1].Info()
		text += fmt.Sprintf(", and the last %d layers on %s (%s)", d.last, i.Name, i.Detail)
	}
	if d.experts > 0 {
		text += fmt.Sprintf(" without the experts of the first %d of the model", d.experts)
	}
	return text
}
