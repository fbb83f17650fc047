package graph

import "fmt"

// Where experts are on a device of their own (a CPU) and the device of their layers has room for some, those that are used most are on both: in the slots of a cache, which change between steps.
//
//	shares of the router ─► CacheShares ─► cold: MoE of all experts, without those in slots ┐
//	                                   └─► hot: MoE of the slots' experts                   ┴─► Add

// CacheShares divides the shares of experts between those that are in the slots of a cache and the others. Which experts are in slots is not the graph's: the program knows it, changes it
// between steps by how often each is used, and has the host compute the node.
type CacheShares struct {
	simple
	// Slots is the experts that are in the slots when a program begins, and of how many.
	Slots *Placed
}

// Name implements Op.
func (CacheShares) Name() string { return "CacheShares" }

// Attrs implements Op.
func (o CacheShares) Attrs() string {
	return fmt.Sprintf("%d slots for %d experts", len(o.Slots.Of), o.Slots.Experts)
}

// Infer implements Op: shares [rows, experts] → cold [rows, experts], 0 for those in slots, and hot [rows, slots].
func (o CacheShares) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 1, 0, 0); err != nil {
		return nil, err
	}
	shares := n.In[0]
	if err := matrix(shares); err != nil {
		return nil, err
	}
	if shares.Axis.Len() != o.Slots.Experts || shares.Axis.Shards > 0 || shares.Type != F32 {
		return nil, fmt.Errorf("%s is [%s, %s] %s, and shares of %d experts in f32 are wanted", shares.Name, shares.Rows, shares.Axis, shares.Type, o.Slots.Experts)
	}
	if n := len(o.Slots.Of); n < 1 || n > o.Slots.Experts {
		return nil, fmt.Errorf("a cache of %d experts has %d slots; 1 to %d are possible", o.Slots.Experts, n, o.Slots.Experts)
	}
	in := make([]bool, o.Slots.Experts)
	for i, e := range o.Slots.Of {
		if e < 0 || e >= len(in) || in[e] {
			return nil, fmt.Errorf("slot %d of a cache of %d experts begins with number %d, which is none of them or in another slot", i, len(in), e)
		}
		in[e] = true
	}
	slots := Axis{Name: "slots", Count: len(o.Slots.Of), Size: 1}
	return []Value{{Rows: shares.Rows, Axis: shares.Axis, Type: F32}, {Rows: shares.Rows, Axis: slots, Type: F32}}, nil
}

// Work implements Op.
func (o CacheShares) Work(n *Node, s *Step) Work { return traffic(n, s, 0) }
