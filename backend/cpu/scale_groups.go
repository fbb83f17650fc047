package cpu

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/graph"
)

// scaleGroups is how a launch writes a value in Q8, or reads one: where a step has rows enough, with per-group activation scales
// (see gemm.GroupedActs); otherwise in Q8 blocks, which all kernels read.
type scaleGroups struct {
	producer bool // it writes the value
	largest  int  // most numbers that may share a scale; 0: Q8 blocks only
	group    int  // numbers that do: what the launches that write and read a value have in common
}

// acts are m rows of k numbers of such a value in its memory.
func (r scaleGroups) acts(d *Device, at []byte, m, k int) gemm.Acts {
	if r.group > 0 && gemm.Grouped(d.tier, m) {
		return gemm.GroupedActs(d.tier, at, m, k, r.group)
	}
	return gemm.TiledActs(d.tier, at, m, k)
}

// scaleGroupsOf is what a node's launch can do; that of a block of experts takes lines.
func (d *Device) scaleGroupsOf(n *graph.Node) (r scaleGroups) {
	switch n.Op.(type) {
	case graph.Quantize:
		r.producer = true
		r.largest = n.In[0].Axis.Len()
		if quantizePartition(n) == byColumns {
			r.largest = columnMultiple(r.largest, d.pool.N())
		}
	case graph.Linear:
		if in := n.In[0]; in.Type == graph.Q8 {
			r.largest = gemm.ScaleGroup(d.tier, n.Weights[0].Format, in.Axis.Len())
			if d.deterministic && r.largest > graph.Q8Block {
				r.largest = 0
			}
		}
	}
	return r
}

// chooseScaleGroups chooses the group of every value in Q8: the smallest that any launch allows that writes or reads it. It gives that of each
// launch.
func chooseScaleGroups(launches []backend.Launch) []scaleGroups {
	chosen := make([]scaleGroups, len(launches))
	for i, l := range launches {
		chosen[i] = l.(*launch).q8
	}
	for i, l := range launches {
		producer := l.(*launch)
		if !producer.q8.producer {
			continue
		}
		at := producer.accesses[1].at // behind its input
		users := []int{i}
		for j, l := range launches[i+1:] {
			reads, writes := l.(*launch).uses(at)
			if writes {
				break
			}
			if reads {
				users = append(users, i+1+j)
			}
		}
		group := producer.q8.largest
		for _, u := range users[1:] {
			group = min(group, chosen[u].largest)
		}
		if len(users) == 1 {
			group = 0
		}
		for _, u := range users {
			chosen[u].group = group
		}
	}
	return chosen
}

// uses reports whether the launch reads any of a buffer, and whether it writes any.
func (l *launch) uses(at backend.Buffer) (reads, writes bool) {
	for _, x := range l.accesses {
		if x.at.Mem == at.Mem && x.at.Off < at.Off+at.Len && at.Off < x.at.Off+x.at.Len {
			reads, writes = reads || !x.write, writes || x.write
		}
	}
	return reads, writes
}
