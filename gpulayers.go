package ridge

import (
	"errors"
	"fmt"

	"github.com/ridge-llm/ridge/engine/draft"
)

// GPULayers is how many of a model's last layers are on a GPU: see Options.GPULayers.
type GPULayers int

// GPULayers that are no numbers of layers.
const (
	NoGPULayers   GPULayers = -1
	AutoGPULayers GPULayers = -2
)

// Check refuses layers on a GPU where no GPU is asked for, or several are.
func (n GPULayers) Check(backend string, l Layout) error {
	switch {
	case n == 0:
		return nil
	case n < AutoGPULayers:
		return fmt.Errorf("ridge: GPULayers (--gpu-layers) is %d; a number of layers, 0 (all), NoGPULayers and AutoGPULayers are possible", int(n))
	case backend == "" || backend == "cpu":
		return errors.New("ridge: GPULayers (--gpu-layers) says how many layers a GPU has, and Backend (--backend) is the CPU; add --backend cuda")
	case l.Devices() > 1:
		return fmt.Errorf("ridge: GPULayers (--gpu-layers) and the layout %s: layers are divided between the CPU and one GPU, or over several devices of a backend; leave one out", l.passes())
	}
	return nil
}

// CPUExperts is of how many of a model's first layers the experts are on the CPU: see Options.CPUExperts.
type CPUExperts int

// AllCPUExperts has the experts of all layers on the CPU.
const AllCPUExperts CPUExperts = -1

// Check refuses experts on the CPU where no GPU is asked for, or several are.
func (n CPUExperts) Check(backend string, l Layout, layers GPULayers) error {
	switch {
	case n == 0:
		return nil
	case n < AllCPUExperts:
		return fmt.Errorf("ridge: CPUExperts (--n-cpu-moe) is %d; a number of layers, 0 (none) and AllCPUExperts (--cpu-moe) are possible", int(n))
	case backend == "" || backend == cpuName:
		return errors.New("ridge: CPUExperts (--cpu-moe, --n-cpu-moe) keeps experts on the CPU while the rest of their layers is on a GPU, and Backend (--backend) is the CPU; add --backend cuda")
	case layers == NoGPULayers:
		return errors.New("ridge: CPUExperts (--cpu-moe, --n-cpu-moe) and no layers on the GPU (--gpu-layers 0): all experts are on the CPU then; leave one out")
	case l.Devices() > 1:
		return fmt.Errorf("ridge: CPUExperts (--cpu-moe, --n-cpu-moe) and the layout %s: experts are on the CPU beside one GPU; leave one out", l.passes())
	}
	return nil
}

// Of is of how many of so many first layers the experts are on the CPU.
func (n CPUExperts) Of(layers int) int {
	if n == AllCPUExperts {
		return layers
	}
	return min(int(n), layers)
}

// check refuses what does not go with layers on two backends.
func (n GPULayers) check(o Options) error {
	switch {
	case n == 0 && o.CPUExperts == 0:
		return nil
	case o.Ranks.Rendezvous != "":
		return errors.New("ridge: GPULayers or CPUExperts (--gpu-layers, --cpu-moe) and Ranks (--ranks, --rendezvous): the CPU and the GPU are of one process; leave one out")
	case len(o.EarlyExit.Layers) > 0:
		return errors.New("ridge: EarlyExit (--early-exit) and GPULayers or CPUExperts (--gpu-layers, --cpu-moe): parts of the model that tokens leave are of one device; leave one out")
	}
	for _, s := range append([]Speculation{o.Speculation}, o.Speculation.Beside...) {
		switch method, _ := draft.ParseMethod(s.Method); method {
		case draft.LayerSkip, draft.Medusa, draft.MTP, draft.Eagle, draft.Eagle3:
			return fmt.Errorf("ridge: Speculation by %s and GPULayers or CPUExperts (--gpu-layers, --cpu-moe): it goes on from hidden states or layers that lie on one device; ngram, suffix, lookahead and draft models go with both", method)
		}
	}
	return nil
}
