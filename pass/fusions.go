package pass

import (
	"github.com/ridge-llm/ridge/graph"
)

// What the rows of the table look for.

// findAddNorm finds sums and the first norm of each.
func findAddNorm(m *matcher) (found []match) {
	for _, n := range m.g.Nodes {
		if _, ok := n.Op.(graph.Add); !ok {
			continue
		}
		for _, norm := range m.readers[n.Out[0]] {
			if o, ok := norm.Op.(graph.RMSNorm); ok && o.WholeRows() {
				by := &graph.Node{Op: graph.AddNorm{Eps: o.Eps}, In: n.In, Weights: norm.Weights, Out: []*graph.Value{n.Out[0], norm.Out[0]}, At: n.At}
				found = append(found, match{[]*graph.Node{n, norm}, by})
				break
			}
		}
	}
	return found
}

// norm reports whether a node normalises whole rows, and gives the norm.
func norm(n *graph.Node) (*graph.Value, bool) {
	switch o := n.Op.(type) {
	case graph.RMSNorm:
		return n.Out[0], o.WholeRows()
	case graph.AddNorm:
		return n.Out[1], true
	}
	return nil, false
}

// findNormQuantize finds norms of which only the quantised rows are read.
func findNormQuantize(m *matcher) (found []match) {
	for _, n := range m.g.Nodes {
		y, ok := norm(n)
		if !ok {
			continue
		}
		q := m.only(y)
		if q == nil {
			continue
		}
		if _, ok := q.Op.(graph.Quantize); !ok {
			continue
		}
		outs := append(n.Out[:len(n.Out)-1:len(n.Out)-1], q.Out[0])
		if f, ok := m.fused(graph.NormQuantize, []*graph.Node{n, q}, outs...); ok {
			found = append(found, f)
		}
	}
	return found
}

// findGatedNorm finds norms of each head that only a product with a gate reads.
func findGatedNorm(m *matcher) (found []match) {
	for _, n := range m.g.Nodes {
		o, ok := n.Op.(graph.RMSNorm)
		if !ok || !o.PerGroup {
			continue
		}
		act := m.only(n.Out[0])
		if act == nil || act.In[len(act.In)-1] != n.Out[0] {
			continue
		}
		if _, ok := act.Op.(graph.ActMul); !ok {
			continue
		}
		if f, ok := m.fused(graph.GatedNorm, []*graph.Node{n, act}, act.Out[0]); ok {
			found = append(found, f)
		}
	}
	return found
}

// findAllReduceAddNorm finds what devices add up and only a norm reads.
func findAllReduceAddNorm(m *matcher) (found []match) {
	for _, n := range m.g.Nodes {
		if _, ok := n.Op.(graph.AllReduce); !ok {
			continue
		}
		norm := m.only(n.Out[0])
		if norm == nil {
			continue
		}
		if _, ok := norm.Op.(graph.AddNorm); !ok {
			continue
		}
		if f, ok := m.fused(graph.AllReduceAddNorm, []*graph.Node{n, norm}, norm.Out...); ok {
			found = append(found, f)
		}
	}
	return found
}

// findAddNormRouter finds the sums before blocks of experts.
func findAddNormRouter(m *matcher) (found []match) {
	for _, n := range m.g.Nodes {
		if _, ok := n.Op.(graph.MoE); !ok {
			continue
		}
		router := n.In[1].From
		if _, ok := router.Op.(graph.Linear); !ok {
			continue
		}
		sum := router.In[0].From
		if sum == nil {
			continue
		}
		if _, ok := sum.Op.(graph.AddNorm); !ok || router.In[0] != sum.Out[1] {
			continue
		}
		if f, ok := m.fused(graph.AddNormRouter, []*graph.Node{sum, router}, sum.Out[0], sum.Out[1], router.Out[0]); ok {
			found = append(found, f)
		}
	}
	return found
}

// findMoEAddNorm finds the sums behind blocks of experts.
func findMoEAddNorm(m *matcher) (found []match) {
	for _, n := range m.g.Nodes {
		if _, ok := n.Op.(graph.MoE); !ok {
			continue
		}
		if f, ok := m.addNormOf(graph.MoEAddNorm, n); ok {
			found = append(found, f)
		}
	}
	return found
}

// addNormOf is a node and the AddNorm that alone reads what it makes, as one.
func (m *matcher) addNormOf(kind graph.Kind, n *graph.Node) (match, bool) {
	sum := m.only(n.Out[0])
	if sum == nil {
		return match{}, false
	}
	if _, ok := sum.Op.(graph.AddNorm); !ok {
		return match{}, false
	}
	return m.fused(kind, []*graph.Node{n, sum}, sum.Out...)
}

// ropes is the two RoPEs and the store before an attention; false if it has others. norms are those of each head before them, if both
// have one that nothing else reads.
func (m *matcher) ropes(attention *graph.Node) (ropes, norms []*graph.Node, ok bool) {
	store, q := attention.In[1].From, attention.In[0].From
	if store == nil || q == nil || store.Layer != attention.Layer || m.only(attention.In[0]) != attention { // or it reads an earlier layer's cache
		return nil, nil, false
	}
	q, k, ok := m.pair(q, store)
	if !ok {
		return nil, nil, false
	}
	for _, n := range []*graph.Node{q, k} {
		if norm := n.In[0].From; norm != nil {
			if o, ok := norm.Op.(graph.RMSNorm); ok && o.PerGroup && m.only(n.In[0]) == n {
				norms = append(norms, norm)
			}
		}
	}
	if len(norms) != 2 || norms[0].Op != norms[1].Op {
		norms = nil
	}
	return []*graph.Node{q, k, store}, norms, true
}

// pair is the RoPE of queries and that of the keys that a KV write takes, if both have the same rotation.
func (m *matcher) pair(q, store *graph.Node) (*graph.Node, *graph.Node, bool) {
	if _, ok := store.Op.(graph.KVWrite); !ok {
		return nil, nil, false
	}
	k := store.In[1].From
	_, isQ := q.Op.(graph.RoPE)
	_, isK := k.Op.(graph.RoPE)
	if !isQ || !isK || q.Op.(graph.RoPE).From > 0 || q.Op != k.Op || q.In[1] != k.In[1] || m.only(k.Out[0]) != store {
		return nil, nil, false
	}
	return q, k, true
}

// findHeadNormAttention finds attention whose queries and keys are normalised head by head before RoPE.
func findHeadNormAttention(m *matcher) (found []match) {
	for _, n := range m.g.Nodes {
		if _, ok := n.Op.(graph.Attention); !ok {
			continue
		}
		ropes, norms, ok := m.ropes(n)
		if !ok || norms == nil {
			continue
		}
		if f, ok := m.fused(graph.HeadNormAttention, append(append(norms, ropes...), n), n.Out[0], ropes[2].Out[0]); ok {
			found = append(found, f)
		}
	}
	return found
}

// findRoPEAttention finds attention with RoPE on queries and keys.
func findRoPEAttention(m *matcher) (found []match) {
	for _, n := range m.g.Nodes {
		if _, ok := n.Op.(graph.Attention); !ok {
			continue
		}
		ropes, _, ok := m.ropes(n)
		if !ok {
			continue
		}
		if f, ok := m.fused(graph.RoPEAttention, append(ropes, n), n.Out[0], ropes[2].Out[0]); ok {
			found = append(found, f)
		}
	}
	return found
}

// findLatentAttention finds attention to a latent cache with its absorbed matrices.
func findLatentAttention(m *matcher) (found []match) {
	for _, n := range m.g.Nodes {
		if _, ok := n.Op.(graph.Attention); !ok || !n.In[1].Cache.Latent {
			continue
		}
		q, y := n.In[0].From, m.only(n.Out[0])
		if q == nil || y == nil || m.only(n.In[0]) != n {
			continue
		}
		_, isQ := q.Op.(graph.HeadLinear)
		_, isY := y.Op.(graph.HeadLinear)
		if !isQ || !isY {
			continue
		}
		if f, ok := m.fused(graph.LatentAttention, []*graph.Node{q, n, y}, y.Out[0]); ok {
			found = append(found, f)
		}
	}
	return found
}

// findRoPEKVWrite finds KV writes of keys after RoPE, with the RoPE of the queries that attend to them.
func findRoPEKVWrite(m *matcher) (found []match) {
	for _, n := range m.g.Nodes {
		if _, ok := n.Op.(graph.Attention); !ok {
			continue
		}
		store, q := n.In[1].From, n.In[0].From
		if store == nil || q == nil || store.Layer != n.Layer {
			continue
		}
		q, k, ok := m.pair(q, store)
		if !ok {
			continue
		}
		if f, ok := m.fused(graph.RoPEKVWrite, []*graph.Node{q, k, store}, append([]*graph.Value{q.Out[0]}, store.Out...)...); ok {
			found = append(found, f)
		}
	}
	return found
}

// findGatedLinear finds gated feed-forward blocks.
func findGatedLinear(m *matcher) (found []match) {
	for _, n := range m.g.Nodes {
		if _, ok := n.Op.(graph.ActMul); !ok {
			continue
		}
		gate, up := n.In[0].From, n.In[1].From
		if gate == nil || up == nil {
			continue
		}
		_, isGate := gate.Op.(graph.Linear)
		_, isUp := up.Op.(graph.Linear)
		if !isGate || !isUp || gate == up || gate.In[0] != up.In[0] || m.only(n.In[0]) != n || m.only(n.In[1]) != n || m.place[gate] > m.place[up] {
			continue
		}
		if f, ok := m.fused(graph.GatedLinear, []*graph.Node{gate, up, n}, n.Out[0]); ok {
			found = append(found, f)
		}
	}
	return found
}

// findAdaptedLinear finds layers with the adapters of their results, and the function that joins those of a gate and an up matrix.
func findAdaptedLinear(m *matcher) (found []match) {
	for _, n := range m.g.Nodes {
		if _, ok := n.Op.(graph.LoRA); !ok || len(n.Out) > adaptedMost {
			continue
		}
		nodes := []*graph.Node{n}
		for _, y := range n.In[1:] {
			if l := y.From; l != nil && m.only(y) == n {
				if _, ok := l.Op.(graph.Linear); ok && l.In[0] == n.In[0] {
					nodes = append(nodes, l)
				}
			}
		}
		if len(nodes) != len(n.In) { // one is no product, or read by others
			continue
		}
		if act := m.actMul(n.Out); act != nil {
			if f, ok := m.fused(graph.AdaptedLinear, append(nodes[:len(nodes):len(nodes)], act), act.Out[0]); ok {
				found = append(found, f)
				continue
			}
		}
		if f, ok := m.fused(graph.AdaptedLinear, nodes, n.Out...); ok {
			found = append(found, f)
		}
	}
	return found
}

// findOutlierLinear finds layers whose rows are in eight bits, with what the large numbers of these add, as many of the same rows together as the device computes as one.
func findOutlierLinear(m *matcher) (found []match) {
	for _, n := range m.g.Nodes {
		if !m.addsOutliers(n) || m.taken[n] {
			continue
		}
		nodes, outs := []*graph.Node(nil), []*graph.Value(nil)
		for _, r := range m.readers[n.In[1]] {
			if len(outs) < outlierMost && m.addsOutliers(r) && !m.taken[r] && r.Op == n.Op && m.place[r] >= m.place[n] && r.In[0].From.In[0] == n.In[0].From.In[0] {
				nodes, outs = append(nodes, r.In[0].From, r), append(outs, r.Out[0])
			}
		}
		if act := m.actMul(outs); act != nil {
			if f, ok := m.fused(graph.OutlierLinear, append(nodes[:len(nodes):len(nodes)], act), act.Out[0]); ok {
				found = append(found, f)
				continue
			}
		}
		for len(outs) > 0 {
			if f, ok := m.fused(graph.OutlierLinear, nodes, outs...); ok {
				found = append(found, f)
				break
			}
			nodes, outs = nodes[:len(nodes)-2], outs[:len(outs)-1]
		}
	}
	return found
}

// addsOutliers reports whether a node adds what large numbers come to, to a product that nothing else reads.
func (m *matcher) addsOutliers(n *graph.Node) bool {
	if _, ok := n.Op.(graph.AddOutliers); !ok || n.In[0].From == nil || m.only(n.In[0]) != n {
		return false
	}
	_, ok := n.In[0].From.Op.(graph.Linear)
	return ok
}

// actMul is the node that joins two results, if nothing else reads them.
func (m *matcher) actMul(outs []*graph.Value) *graph.Node {
	if len(outs) != 2 {
		return nil
	}
	act := m.only(outs[0])
	if act == nil || act != m.only(outs[1]) || act.In[0] != outs[0] {
		return nil
	}
	if _, ok := act.Op.(graph.ActMul); !ok {
		return nil
	}
	return act
}

// groupMost is the most Linears of a group, adaptedMost of those with adapters, outlierMost of those with AddOutliers behind them.
const groupMost, adaptedMost, outlierMost = 4, 3, 3

// findLinearGroup finds layers that read the same rows, as many of them together as the device computes as one.
func findLinearGroup(m *matcher) (found []match) {
	for _, n := range m.g.Nodes {
		if _, ok := n.Op.(graph.Linear); !ok || m.taken[n] {
			continue
		}
		var with []*graph.Node
		for _, r := range m.readers[n.In[0]] {
			if _, ok := r.Op.(graph.Linear); ok && !m.taken[r] && m.place[r] >= m.place[n] {
				with = append(with, r)
			}
		}
		if f, ok := m.group(n, with[1:]); ok {
			found = append(found, f)
		}
	}
	return found
}

// group is a layer with those of others that one launch computes with it.
func (m *matcher) group(n *graph.Node, others []*graph.Node) (best match, ok bool) {
	nodes, outs := []*graph.Node{n}, []*graph.Value{n.Out[0]}
	for _, r := range others {
		if len(nodes) == groupMost {
			break
		}
		with, makes := append(nodes[:len(nodes):len(nodes)], r), append(outs[:len(outs):len(outs)], r.Out[0])
		f, fits := m.fused(graph.LinearGroup, with, makes...)
		if !fits {
			continue
		}
		for _, n := range with {
			m.taken[n] = false
		}
		nodes, outs, best, ok = with, makes, f, true
	}
	for _, n := range best.nodes {
		m.taken[n] = true
	}
	return best, ok
}
