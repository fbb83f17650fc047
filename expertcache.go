package ridge

import (
	"errors"
	"fmt"
	"sort"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/size"
	"github.com/ridge-llm/ridge/pass"
)

// ExpertCache is how much of a GPU's memory is for copies of experts that are on the CPU, bytes: see Options.ExpertCache.
type ExpertCache int64

// AutoExpertCache is what weights, activations and the KV cache leave free.
const AutoExpertCache ExpertCache = -1

// check refuses a cache where no experts are on the CPU.
func (c ExpertCache) check(o Options) error {
	switch {
	case c == 0:
		return nil
	case c < AutoExpertCache:
		return fmt.Errorf("ridge: ExpertCache (--expert-cache) is %d; bytes, 0 (none) and AutoExpertCache are possible", int64(c))
	case o.CPUExperts == 0 && o.GPULayers != AutoGPULayers:
		return errors.New("ridge: ExpertCache (--expert-cache) is memory of the GPU for experts that are on the CPU, and none are; add --cpu-moe, --n-cpu-moe or --gpu-layers auto")
	case o.MaxLoRAs > 0:
		return errors.New("ridge: ExpertCache (--expert-cache) and MaxLoRAs (--max-loras): adapters of experts are of those of one device; leave one out")
	}
	return nil
}

// slotsIn finds how many experts of each layer whose experts are on the CPU the GPU has a slot for too, with so many last layers there. o has none yet.
func (m *Model) slotsIn(o Options, g *graph.Graph, last int) (slots int, err error) {
	if o.ExpertCache == 0 || o.CPUExperts == 0 {
		return 0, nil
	}
	l := pass.WithoutExperts(g.Layers(), last, o.CPUExperts.Of(g.Layers()))
	each, most := l.SlotBytes(g)
	if most == 0 {
		return 0, nil
	}
	if o.ExpertCache > 0 {
		if int64(o.ExpertCache) < each {
			return 0, fmt.Errorf("ridge: ExpertCache (--expert-cache) is %s, and one expert of each layer takes %s; give more, or leave it out", size.Text(int64(o.ExpertCache)), size.Text(each))
		}
		return int(min(int64(o.ExpertCache)/each, int64(most))), nil
	}
	return sort.Search(most, func(i int) bool {
		with := o
		with.expertSlots = i + 1
		_, err := m.gpuRoom(with, m.device, last, contexts(o))
		return err != nil
	}), nil
}

// ExpertCaching is how a model uses the GPU's memory for experts that are on the CPU; false: it has none. Its figures are since it was loaded.
func (m *Model) ExpertCaching() (s ExpertCaching, ok bool) {
	if m.split == nil || m.split.layout.ExpertSlots == 0 {
		return s, false
	}
	return ExpertCaching(m.split.caching()), true
}

// ExpertCaching is the figures of an expert cache.
type ExpertCaching struct {
	Slots     int   // experts that are on the GPU too, of all layers
	Passes    int64 // rows through experts, of layers that have slots
	Hits      int64 // of these, through experts in slots
	Exchanges int64 // experts that took the slots of others, which were used less
}
