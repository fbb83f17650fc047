package cuda

import (
	"errors"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/graph"
)

// A launch costs one to three microseconds of a GPU that reads four gigabytes in a millisecond, so neighbours in a program
// that one kernel can do together become one launch. This is decided once a program, from its nodes, before its first step:
//
//	Linear, Linear (, Linear) of the same rows             one launch over all their weights
//	Linear gate, Linear up, ActMul of the two              one launch with the function at its end
//	Linear, AddNorm, Linear …                              the norm is no launch in steps of few rows; see join_norm.go
//	AddNorm, Linear, MoE, AddNorm                          two launches fewer, in steps of few rows; see join_experts.go
//	RMSNorm or AddNorm, Quantize of what it makes          one launch; what is not rounded is not written; see join_round.go
//	RoPE of queries, RoPE of keys, KVWrite                 one launch; the turned keys go straight to the cache; see join_turn.go
//	the same and Attention                                 one launch where few sequences decode; turned queries are not written either
//	RMSNorm of each head of those before                   the same launch, where it is one
//
// What a joined launch no longer writes must have had no other reader, and what it writes must not lie where it still
// reads: the plan reuses memory as if each node ran by itself.

// join gives the launches of a program with neighbours joined.
func (d *Device) join(list []backend.Launch) ([]*launch, error) {
	all := make([]*launch, len(list))
	readers := map[*graph.Value]int{}
	for i, l := range list {
		all[i] = l.(*launch)
		for _, v := range all[i].node.In {
			readers[v]++
		}
	}
	if err := d.findFolds(all, readers); err != nil {
		return nil, err
	}
	var joined []*launch
	for i := 0; i < len(all); {
		one, n, err := d.joinOne(all[i:], readers)
		if err != nil {
			return nil, err
		}
		one.count = n
		joined, i = append(joined, one), i+n
	}
	return joined, nil
}

// joinOne joins the first launch with what it can be joined with; it gives how many that were, 1 if none.
func (d *Device) joinOne(l []*launch, readers map[*graph.Value]int) (*launch, int, error) {
	for _, try := range []func([]*launch, map[*graph.Value]int) (*launch, int, error){
		d.joinScores, d.joinExperts, d.joinHeads, d.joinNorm, d.joinSum, d.joinGate, d.joinLinears, d.joinRound, d.joinTurn,
	} {
		if one, n, err := try(l, readers); n > 0 || err != nil {
			return one, n, err
		}
	}
	return l[0], 1, nil
}

// Joined implements backend.Joiner.
func (d *Device) Joined(launches []backend.Launch) (counts []int, err error) {
	err = d.do(func() error {
		list, err := d.joinedOf(launches)
		for _, l := range list {
			counts = append(counts, l.count)
		}
		return err
	})
	return counts, err
}

// joinedOf is join, once for each program.
func (d *Device) joinedOf(launches []backend.Launch) ([]*launch, error) {
	if len(launches) == 0 {
		return nil, nil
	}
	st := d.steps
	list := st.joined[&launches[0]]
	if list == nil {
		var err error
		if list, err = d.join(launches); err != nil {
			return nil, err
		}
		if err = errors.Join(d.upload.wait(), d.loader.Wait()); err != nil { // a program's last weights and kernels have been asked for
			return nil, err
		}
		st.joined[&launches[0]] = list
	}
	return list, nil
}

// tensorLinear reports whether a launch is a linear layer for Hopper's tensor cores.
func (d *Device) tensorLinear(l *launch) bool {
	_, ok := l.node.Op.(graph.Linear)
	return ok && d.hopper() && streams(l.node) && l.node.Out[0].Axis.Len()%8 == 0
}

// alike reports whether two linear layers keep their weights in layouts that one kernel reads.
func alike(a, b *launch) bool {
	v, w := a.args.Weights[0].(*weight), b.args.Weights[0].(*weight)
	return packs(v) == packs(w) && (!packs(v) || v.format == w.format)
}

// overlap reports whether two buffers share memory.
func overlap(a, b backend.Buffer) bool {
	return a.Mem == b.Mem && a.Off < b.Off+b.Len && b.Off < a.Off+a.Len
}

// joinGate joins a gate, its other half and the function on both.
func (d *Device) joinGate(l []*launch, readers map[*graph.Value]int) (*launch, int, error) {
	if len(l) < 3 || !d.tensorLinear(l[0]) || !d.tensorLinear(l[1]) || !alike(l[0], l[1]) {
		return nil, 0, nil
	}
	o, ok := l[2].node.Op.(graph.ActMul)
	gate, up := l[0].node.Out[0], l[1].node.Out[0]
	switch {
	case !ok || o.Fn != graph.Silu && o.Fn != graph.GeluTanh,
		l[2].node.In[0] != gate || l[2].node.In[1] != up,
		l[0].node.In[0] != l[1].node.In[0],
		readers[gate] != 1 || readers[up] != 1,
		overlap(l[2].args.Out[0], l[0].args.In[0]):
		return nil, 0, nil
	}
	put, err := d.bindTensor(l[:2], l[2])
	if driver.IsOutOfMemory(err) { // no room to weave the two together: they stay apart
		return nil, 0, nil
	}
	return &launch{text: l[2].text + " (gate, up and function)", put: put}, 3, err
}

// joinLinears joins up to three linear layers that read the same rows.
func (d *Device) joinLinears(l []*launch, _ map[*graph.Value]int) (*launch, int, error) {
	n := 0
	for n < min(3, len(l)) && d.tensorLinear(l[n]) && alike(l[0], l[n]) && l[n].node.In[0] == l[0].node.In[0] && !overlap(l[n].args.Out[0], l[0].args.In[0]) {
		n++
	}
	if n == 0 && l[0].fold != nil && d.foldRows(l[0]) > 0 {
		n = 1 // apart from the others, but it reads what they do
	}
	if n == 0 || n == 1 && l[0].fold == nil {
		return nil, 0, nil
	}
	put, err := d.bindTensor(l[:n], nil)
	return &launch{text: l[0].text + " and what reads the same", put: put}, n, err
}
