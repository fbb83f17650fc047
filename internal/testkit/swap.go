package testkit

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
)

// SwappedOutputs is Outputs of a backend.Swapper, with the whole cache away in host memory, and others' numbers in its
// pages, between every two steps. The result must be the same.
func SwappedOutputs(g *graph.Graph, dev backend.Device, w compile.Tensors, lim backend.Limits, batches []*backend.Batch) ([][]float32, error) {
	lim.SwapPages = lim.Pages + 1
	var device, host []int32
	for p := range lim.Pages {
		device, host = append(device, int32(p)), append(host, int32((p*7+3)%lim.Pages+1))
	}
	if lim.Pages%7 == 0 { // 7 is no step through all pages then
		for p := range host {
			host[p] = int32(lim.Pages - p)
		}
	}
	return outputs(g, dev, w, lim, batches, func(p *compile.Program) error {
		for group := range p.Groups() {
			if err := p.SwapOut(group, device, host); err != nil {
				return err
			}
			for i := range device {
				if err := p.CopyPage(group, int32((i+1)%lim.Pages), int32(i)); err != nil {
					return err
				}
			}
			// In two parts, as for two sequences.
			half := lim.Pages / 2
			if err := p.SwapIn(group, host[half:], device[half:]); err != nil {
				return err
			}
			if err := p.SwapIn(group, host[:half], device[:half]); err != nil {
				return err
			}
		}
		return nil
	})
}
