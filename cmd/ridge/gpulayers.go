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

// llamaShort has -ngl mean --gpu-layers, as llama.cpp's programs do: flags of one dash have one letter else.
func llamaShort(args []string) []string {
	out := make([]string, 0, len(args))
	for i, a := range args {
		if a == "--" {
			return append(out, args[i:]...)
		}
		if rest, ok := strings.CutPrefix(a, "-ngl"); ok && (rest == "" || rest[0] == '=') {
			a = "--gpu-layers" + rest
		}
		out = append(out, a)
	}
	return out
}

// open opens the devices that compute a model: those of a layout, or the CPU and the GPU, of which the second has so many last layers; 0: one has all.
func (n gpuLayers) open(o device.Options, l ridge.Layout, m *model.Model) (devices []backend.Device, last int, err error) {
	if n == 0 {
		devices, err = openDevices(o, l)
		return devices, 0, err
	}
	if err := ridge.GPULayers(n).Check(o.Backend, l); err != nil {
		return nil, 0, err
	}
	g, err := m.Graph(model.Options{Act: graph.F32, Cache: graph.F16})
	if err != nil {
		return nil, 0, err
	}
	first := o
	first.Backend = "cpu"
	switch {
	case n == gpuLayers(ridge.AutoGPULayers):
		return nil, 0, fmt.Errorf("--gpu-layers auto chooses by the cache that ridge run and ridge serve keep; give a number of the %d layers here, 0 or all", g.Layers())
	case n == gpuLayers(ridge.NoGPULayers):
		devices, err = openDevices(first, l)
		return devices, 0, err
	case int(n) >= g.Layers():
		devices, err = openDevices(o, l)
		return devices, 0, err
	}
	if devices, err = openDevices(first, l); err != nil {
		return nil, 0, err
	}
	second, err := openDevices(o, l)
	if err != nil {
		closeDevices(devices)
		return nil, 0, err
	}
	return append(devices, second...), int(n), nil
}

// stepTokens is how many rows a step has at most by default.
func (n gpuLayers) stepTokens(name string) int {
	if n != 0 {
		name = "cpu"
	}
	return device.StepTokens(name)
}

// described names devices, and how many layers the last has where they are of two backends.
func described(devices []backend.Device, last int) string {
	i := devices[0].Info()
	text := fmt.Sprintf("%s (%s)", i.Name, i.Detail)
	if last > 0 {
		i = devices[1].Info()
		text += fmt.Sprintf(", and the last %d layers on %s (%s)", last, i.Name, i.Detail)
	}
	return text
}
