package compile

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// Kernels is what a device answers to pass.Fuse.
type Kernels struct{ Device backend.Device }

// Has implements pass.Kernels.
func (k Kernels) Has(n *graph.Node) bool { return len(k.Device.Kernels(n)) > 0 }

// NormRows implements pass.Kernels.
func (k Kernels) NormRows(n *graph.Node) int {
	if d, ok := k.Device.(backend.NormFuser); ok {
		return d.NormRows(n)
	}
	return 0
}
