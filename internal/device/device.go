// Package device opens devices by the names that people give them: cpu, cuda, cuda:1 (the second GPU), ref.
package device

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/cuda"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/graph"
)

// Options choose a device.
type Options struct {
	Backend       string            // cpu, cuda, cuda:N, cuda:N,M or ref; "" is cpu
	Number        int               // which of several devices of one Backend, from 0: cuda is all GPUs from the first on, and cuda:2 from the third
	Transport     string            // of what GPUs exchange: nccl, peer or "", see cuda.Options
	Threads       int               // of the CPU; 0: as many as the process may use
	Deterministic bool              // see cpu.Options
	Note          func(text string) // is called with what opening waits for, where that takes long; may be nil
}

// Open opens the device.
func Open(o Options) (backend.Device, error) {
	switch o.Backend {
	case "", "cpu":
		return opened(openCPU(o))
	case "ref":
		return ref.New(), nil
	}
	if !OnGPU(o.Backend) {
		return nil, fmt.Errorf("ridge: Backend (--backend) is %q; cpu, cuda (cuda:1 is the second GPU) and ref are possible", o.Backend)
	}
	ordinal, err := gpu(o.Backend, o.Number)
	if err != nil {
		return nil, err
	}
	return opened(cuda.New(cuda.Options{Ordinal: ordinal, Transport: o.Transport, Note: o.Note}))
}

func openCPU(o Options) (*cpu.Device, error) {
	return cpu.New(cpu.Options{Threads: o.Threads, Tier: os.Getenv("RIDGE_CPU"), Deterministic: o.Deterministic})
}

// OnGPU reports whether a backend is a GPU: cuda, or cuda:1.
func OnGPU(backend string) bool { return backend == "cuda" || strings.HasPrefix(backend, "cuda:") }

// Name is the backend of device number i of several of one backend: cuda:1 is the second of cuda.
func Name(backend string, i int) string {
	if !OnGPU(backend) {
		return backend
	}
	n, err := gpu(backend, i)
	if err != nil {
		return backend
	}
	return fmt.Sprintf("cuda:%d", n)
}

// gpu is which GPU, as CUDA counts them, is device number i of a backend.
func gpu(backend string, i int) (int, error) {
	list, given := strings.CutPrefix(backend, "cuda:")
	if !given {
		return i, nil
	}
	var all []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("ridge: Backend (--backend) is %q; behind cuda: belongs the number of a GPU, from 0, or several with commas between (ridge devices lists them)", backend)
		}
		all = append(all, n)
	}
	if len(all) == 1 {
		return all[0] + i, nil
	}
	if i >= len(all) {
		return 0, fmt.Errorf("ridge: Backend (--backend) %q names %d GPUs, and device %d of the layout has none; name as many as --tp × --pp are", backend, len(all), i+1)
	}
	return all[i], nil
}

// opened makes no backend.Device of a device that could not be opened: a nil pointer in it would not be nil.
func opened[D backend.Device](dev D, err error) (backend.Device, error) {
	if err != nil {
		return nil, err
	}
	return dev, nil
}

// StepTokens is how many rows a step has at most on a backend unless something else is asked for: a GPU needs more of them to be busy.
func StepTokens(backend string) int {
	if OnGPU(backend) {
		return 2048
	}
	return 512
}

// CacheType is the element type of cached keys and values by its name: f16, bf16, f32, int8, int4 or, on a GPU, fp8; "" is f16.
func CacheType(backend, name string) (graph.Type, error) {
	switch name {
	case "", "f16":
		return graph.F16, nil
	case "bf16":
		return graph.BF16, nil
	case "f32":
		return graph.F32, nil
	case "int8":
		return graph.I8, nil
	case "fp8":
		if backend == "" || backend == "cpu" {
			return 0, errors.New("ridge: Cache (--kv-type) is fp8, which the CPU has no kernels for; int8 takes as much memory and is more accurate")
		}
		return graph.F8, nil
	case "int4":
		return graph.I4, nil
	}
	return 0, fmt.Errorf("ridge: Cache (--kv-type) is %q; f16, bf16, f32, int8, fp8 and int4 are possible", name)
}
