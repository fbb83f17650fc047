package capacity

import (
	"slices"

	"github.com/ridge-llm/ridge/graph"
)

// Memory is what one device holds while it serves, in bytes, by purpose: that of the device with the most.
type Memory struct {
	Weights     int64 `json:"weights"`
	CacheToken  int64 `json:"cache_per_token"`              // keys and values of one token, in all layers
	Windowed    int64 `json:"cache_windowed"`               // of it, in layers whose windows are shorter than a sequence may be
	State       int64 `json:"state_per_sequence,omitempty"` // of recurrent layers, however long the sequence is
	Activations int64 `json:"activations"`                  // values of the largest step that live at the same time
	Workspace   int64 `json:"workspace"`                    // of kernels: step data, page tables, split-KV partial results
	Adapters    int64 `json:"adapters,omitempty"`
	Host        int64 `json:"host,omitempty"` // of the host's memory: tables of which a step reads some rows
}

// Fixed is what does not grow with the tokens in the cache.
func (m Memory) Fixed() int64 { return m.Weights + m.Activations + m.Workspace + m.Adapters }

// Step data of a token: id, position, sequence and slot. A page has 16 tokens.
const (
	stepDataBytes = 4 * 4 // bytes
	pageTokens    = 16
	pageEntry     = 4 // bytes
)

// workspace is what kernels need beside values: step data of each token, a page table for each sequence, and for each of its heads
// the partial result of split-KV attention: value size float32 numbers with row maximum and sum.
func workspace(g *graph.Graph, lim Limits) int64 {
	var heads int64   // bytes of one sequence in the attention that needs most
	var passing int64 // keys and values of another device, and those of the next
	for n := range g.Operations() {
		if _, ok := graph.AttentionOf(n); ok {
			v := n.In[1].Cache.V
			heads = max(heads, 4*int64(n.In[0].Axis.Count)*int64(v.Size+2))
		}
		if _, ok := n.Op.(graph.RingAttention); ok {
			passing = max(passing, 2*share(g, int64(lim.Context))*n.In[1].Cache.RowBytes())
		}
	}
	pages := int64((lim.Context + pageTokens - 1) / pageTokens)
	return int64(lim.StepTokens)*stepDataBytes + int64(lim.Sequences)*(pages*pageEntry+heads) + passing
}

// share is how many of so many tokens' keys and values are on one device.
func share(g *graph.Graph, tokens int64) int64 {
	if s := g.Sequence; s.Split {
		return (tokens + int64(s.Ranks) - 1) / int64(s.Ranks)
	}
	return tokens
}

// adapterBytes is what a number of an adapter takes.
const adapterBytes = 2

// MemoryOf is what a device holds to run its graph when steps have at most tokens rows, of which logits are wanted; without workspace.
func MemoryOf(g *graph.Graph, tokens, logits int) Memory {
	var m Memory
	tables := g.HostTables()
	for _, w := range g.Weights {
		if host, ok := tables[w]; ok {
			m.Host += host
			continue
		}
		m.Weights += w.Bytes()
		if s := w.Slots; s != nil {
			m.Adapters += int64(s.Count) * int64(s.Rank) * int64(w.In.Len()+w.Out.Len()) * adapterBytes
		}
	}
	for _, c := range g.Caches {
		m.CacheToken += c.RowBytes()
		m.State += c.StateBytes()
	}
	m.CacheToken = share(g, m.CacheToken)
	m.Activations = live(g, tokens, logits)
	return m
}

// live is the most bytes of matrices that are needed at the same time: each from the node that makes it to the last
// that reads it. Sums over devices, and what is sent, take the place of their inputs. What stays within a fused node counts while it
// runs: in steps of many rows a device may launch its parts one by one.
func live(g *graph.Graph, tokens, logits int) int64 {
	last := map[*graph.Value]int{}
	place := map[*graph.Value]*graph.Value{} // of values in the place of another
	for i, n := range g.Nodes {
		for _, v := range n.In {
			if place[v] != nil {
				v = place[v]
			}
			last[v] = i
		}
		for _, v := range n.Out {
			if in := inPlaceOf(n, v); in != nil {
				if place[v] = in; place[in] != nil {
					place[v] = place[in]
				}
				continue
			}
			last[v] = i
		}
	}
	output := g.Output
	if place[output] != nil {
		output = place[output]
	}
	last[output] = len(g.Nodes)
	ends := make([]int64, len(g.Nodes)+1) // bytes that are free after node i
	var now, most int64
	bytes := func(v *graph.Value) int64 {
		rows, n, own := int64(tokens), int64(max(g.Sequence.Ranks, 1)), g.Sequence.Own
		if v.Rows == graph.Logits {
			rows = int64(logits)
		}
		switch {
		case own && v.Rows != graph.Tokens: // of all devices' steps, at most
			rows *= n
		case !own && v.Rows == graph.Tokens:
			rows = (rows + n - 1) / n
		}
		return rows * v.RowBytes()
	}
	for i, n := range g.Nodes {
		for _, v := range n.Out {
			if v.Cache == nil && place[v] == nil {
				now += bytes(v)
				ends[last[v]] += bytes(v)
			}
		}
		within := int64(0)
		for _, p := range graph.WorkParts(n) {
			for _, v := range p.Unwritten {
				within += bytes(v)
			}
		}
		most = max(most, now+within)
		now -= ends[i]
	}
	return most
}

// inPlaceOf is the input whose place a result takes; nil: it has one of its own.
func inPlaceOf(n *graph.Node, v *graph.Value) *graph.Value {
	switch op := n.Op.(type) {
	case graph.AllReduce, graph.Send:
		return n.In[0]
	case graph.InPlace:
		return n.In[op.Overwrites(slices.Index(n.Out, v))]
	}
	return nil
}

// expertWeights are the weights of experts.
func expertWeights(g *graph.Graph) map[*graph.Weight]bool {
	of := map[*graph.Weight]bool{}
	for n := range g.Operations() {
		if _, ok := n.Op.(graph.MoE); ok {
			for _, w := range n.Weights {
				of[w] = true
			}
		}
	}
	return of
}

// Parameters is how many parameters a model has, and how many of them are active: used by one token.
func Parameters(g *graph.Graph) (all, active int64) {
	of := expertWeights(g)
	for _, w := range g.Weights {
		n := w.Numbers()
		if all += n; !of[w] {
			active += n
		}
	}
	for n := range g.Operations() {
		if o, ok := n.Op.(graph.MoE); ok {
			var experts int64
			for _, w := range n.Weights {
				experts += w.Numbers()
			}
			active += experts * int64(o.TopK) / int64(o.Experts)
		}
	}
	return all, active
}
