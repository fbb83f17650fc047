package model

import (
	"github.com/ridge-llm/ridge/graph"
)

// phi3 is Phi-3 and Phi-4 (arXiv:2404.14219): Llama with queries, keys and values in one matrix, gate and up in
// another.
var phi3 = Arch{
	Name: "phi3",
	HF:   []string{"Phi3ForCausalLM"},
	Read: func(f *fields) *Config {
		c := llamaLike(f)
		c.Rotation = f.rotation(c, graph.HalfPairs)
		f.windows(c, f.sizeOr("sliding_window", "attention.sliding_window", 0), everyLayer)
		return c
	},
	Names: map[string]string{"blk.N.ffn_up": "model.layers.N.mlp.gate_up_proj"},
	Build: func(b *graph.Builder, c *Config) *graph.Value {
		x := embedding(b, c)
		for i := range c.Layers {
			l := newLayer(b, c, i)
			q, k, v := l.fusedQKV(l.norm("attn_norm", x), false)
			x = l.add("attn_sum", x, l.attend(q, k, v))
			h := l.norm("ffn_norm", x)
			gate := b.Linear(l.name("ffn_gate"), h, b.Part(l.name("ffn_up.weight"), 0, c.ffn(), c.hidden()), nil)
			up := b.Linear(l.name("ffn_up"), h, b.Part(l.name("ffn_up.weight"), c.FFN, c.ffn(), c.hidden()), nil)
			h = b.ActMul(l.name("ffn_act"), gate, up, c.Act)
			x = l.add("ffn_sum", x, l.linear("ffn_down", h, c.hidden(), false))
		}
		return rmsHead(b, c, x)
	},
}

// fusedQKV is queries, keys and values from one matrix that holds them one below the other.
func (l layer) fusedQKV(x *graph.Value, bias bool) (q, k, v *graph.Value) {
	from := 0
	part := func(name string, out graph.Axis) *graph.Value {
		w := l.b.Part(l.name("attn_qkv.weight"), from, out, x.Axis)
		var shift *graph.Weight
		if bias {
			shift = l.b.VectorPart(l.name("attn_qkv.bias"), from, out)
		}
		from += out.Len()
		return l.b.Linear(l.name(name), x, w, shift)
	}
	return part("attn_q", l.c.heads()), part("attn_k", l.c.kv()), part("attn_v", l.c.kv())
}
