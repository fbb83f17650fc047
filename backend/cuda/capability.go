package cuda

import (
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/graph"
)

// Capability is what GPUs compute with the kernels of one architecture. It needs no GPU: pass.Fuse asks it of devices that are not here.
type Capability struct{ dev *Device }

// CapabilityOf is that of the kernels with a name of Info's Kernels: "sm_80", "sm_90".
func CapabilityOf(name string) (c Capability, ok bool) {
	for _, arch := range []int{80, 90} {
		d := &Device{loader: kernels.NewLoader(nil, arch)}
		if d.architecture() == name {
			return Capability{d}, true
		}
	}
	return c, false
}

// architecture is the one that the device's kernels are for.
func (d *Device) architecture() string {
	if d.hopper() {
		return "sm_90"
	}
	return "sm_80"
}

// Has implements pass.Kernels.
func (c Capability) Has(n *graph.Node) bool { return len(c.dev.Kernels(n)) > 0 }

// NormRows implements pass.Kernels.
func (c Capability) NormRows(n *graph.Node) int { return c.dev.NormRows(n) }
