package graph

import "fmt"

// CausalConv is a depthwise convolution over each sequence: every number of a token's row becomes the weighted sum of the same number in
// the last Width tokens, its own included, before the first of which there are zeroes; plus a bias, and SiLU if asked for. Its state is the
// inputs of the last Width-1 tokens, the oldest first.
type CausalConv struct {
	simple
	Silu bool
}

// Name implements Op.
func (CausalConv) Name() string { return "CausalConv" }

// Attrs implements Op.
func (o CausalConv) Attrs() string {
	if o.Silu {
		return "silu"
	}
	return ""
}

// Infer implements Op: x [tokens, channels], state [width-1 × channels], w [channels, width], bias? [1, channels] → [tokens, channels] and
// the state's next version.
func (o CausalConv) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 2, 1, 2); err != nil {
		return nil, err
	}
	x, w := n.In[0], n.Weights[0]
	channels, width := x.Axis.Len(), w.In.Len()
	if w.Out.Len() != channels || width < 2 {
		return nil, fmt.Errorf("weight %s is %d × %d; %d channels and a width of 2 or more are wanted", w.Name, w.Out.Len(), width, channels)
	}
	if err := recurrent(x, n.In[1], width-1, channels); err != nil {
		return nil, err
	}
	if len(n.Weights) == 2 {
		if err := vector(n.Weights[1], channels); err != nil {
			return nil, err
		}
	}
	return []Value{like(x), {Cache: n.In[1].Cache}}, nil
}

// Work implements Op.
func (o CausalConv) Work(n *Node, s *Step) Work {
	perNumber := 2 * int64(n.Weights[0].In.Len())
	if len(n.Weights) == 2 {
		perNumber++
	}
	if o.Silu {
		perNumber += Silu.flops()
	}
	return stateTraffic(n, s, perNumber*numbers(n, s))
}

// CausalConv adds the convolution of x with layer's next state; bias may be nil.
func (b *Builder) CausalConv(name string, layer int, x *Value, w, bias *Weight, silu bool) *Value {
	return b.CausalConvOf("conv", name, layer, x, w, bias, silu)
}

// CausalConvOf is CausalConv in a layer of several, whose states are told apart by kind.
func (b *Builder) CausalConvOf(kind, name string, layer int, x *Value, w, bias *Weight, silu bool) *Value {
	ws := []*Weight{w}
	if bias != nil {
		ws = append(ws, bias)
	}
	state := b.State(kind, layer, Axis{Name: "conv", Count: max(w.In.Len()-1, 1), Size: w.Out.Len()})
	return b.Emit(name, CausalConv{Silu: silu}, []*Value{x, state}, ws...)[0]
}

// recurrent checks that x is a matrix of tokens beside a state of so many groups of so many numbers. x may be a shard: heads and channels go on by themselves.
func recurrent(x, state *Value, groups, size int) error {
	if err := matrix(x); err != nil {
		return err
	}
	if x.Rows == Logits {
		return fmt.Errorf("%s has a row per %s, and a state goes on token by token", x.Name, x.Rows)
	}
	if state.Cache == nil || !state.Cache.Recurrent() {
		return fmt.Errorf("%s is not a state", state.Name)
	}
	if a := state.Cache.State; a.Count != groups || a.Size != size {
		return fmt.Errorf("state %s is %d × %d and %d × %d is wanted", state.Name, a.Count, a.Size, groups, size)
	}
	return nil
}

// stateTraffic is the Work of a node whose last input is a state: it is read once for every sequence that goes on, and written once for
// every sequence.
func stateTraffic(n *Node, s *Step, flops int64) Work {
	w := traffic(n, s, flops)
	bytes := n.In[len(n.In)-1].Cache.StateBytes()
	for _, q := range s.Seqs {
		if q.Past > 0 {
			w.CacheRead += bytes
		}
		w.CacheWrite += bytes
	}
	return w
}
