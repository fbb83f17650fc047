package model

import "github.com/ridge-llm/ridge/graph"

// Layers that attend to keys and values of an earlier one, as Gemma 3n and Gemma 4 have them, and values without a weight in their norm.

// heads are the sizes of a layer's heads.
func (l layer) heads() Heads {
	if l.c.Full != (Heads{}) && l.c.Windows[l.i] == 0 {
		return l.c.Full
	}
	return Heads{l.c.KVHeads, l.c.HeadDim}
}

// keysOf is the layer whose keys and values a layer attends to: its own or, of the last that share them, the last layer before those with
// the same window.
func (c *Config) keysOf(layer int) int {
	first := c.Layers - c.SharedKV
	if layer < first {
		return layer
	}
	for i := first - 1; i >= 0; i-- {
		if c.Windows[i] == c.Windows[layer] {
			return i
		}
	}
	return layer
}

// checkShared refuses layers that share keys and values with a layer that is not there.
func (f *fields) checkShared(c *Config) {
	if c.SharedKV < 0 || c.SharedKV >= max(c.Layers, 1) {
		f.fail("its last %d of %d layers share keys and values (num_kv_shared_layers); fewer than all are possible", c.SharedKV, c.Layers)
		return
	}
	for i := c.Layers - c.SharedKV; i < c.Layers && f.err == nil; i++ {
		if c.keysOf(i) == i {
			f.fail("layer %d shares keys and values (num_kv_shared_layers is %d), and no layer before number %d has the same window of %d", i, c.SharedKV, c.Layers-c.SharedKV, c.Windows[i])
		}
	}
}

// sharingAttention is an attention block on normalised rows x whose layer may attend to an earlier one's keys and values. Queries and keys are
// normalised with a weight, values without; scores are not scaled. stores are the caches that layers have written so far.
func (l layer) sharingAttention(x *graph.Value, stores []*graph.Value) *graph.Value {
	h, from := l.heads(), l.c.keysOf(l.i)
	kv, head := graph.Axis{Name: "kv", Count: h.KV, Size: h.Size}, graph.Axis{Name: "head", Count: 1, Size: h.Size}
	normed := func(stem string, x *graph.Value) *graph.Value {
		return l.b.GroupRMSNorm(l.name(stem), x, l.b.Vector(l.name(stem)+".weight", head), l.c.NormEps)
	}
	q, r := l.linear("attn_q", x, graph.Axis{Name: "heads", Count: l.c.Heads, Size: h.Size}, l.c.QKVBias), l.c.rotation(l.i)
	if from != l.i {
		q = l.b.RoPE(l.name("q_rot"), normed("attn_q_norm", q), r)
	} else {
		k := l.linear("attn_k", x, kv, l.c.QKVBias)
		v := k
		if !l.c.KeysAsValues || l.c.Windows[l.i] > 0 {
			v = l.linear("attn_v", x, kv, l.c.QKVBias)
		}
		v = l.b.GroupRMSNorm(l.name("v_norm"), v, l.b.Ones(head), l.c.NormEps)
		q, k = normed("attn_q_norm", q), normed("attn_k_norm", k)
		q, k = l.b.RoPE(l.name("q_rot"), q, r), l.b.RoPE(l.name("k_rot"), k, r)
		stores[l.i] = l.b.KVWrite(l.b.Cache(l.i, kv, kv, l.c.Windows[l.i]), k, v)
	}
	y := l.b.Attention(l.name("attn"), q, stores[from], graph.Attention{Scale: l.c.AttnScale})
	return l.linear("attn_output", y, l.c.hidden(), l.c.OutBias)
}
