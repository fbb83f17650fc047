package model

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
)

// layer is where a block is built: the builder, the configuration and the layer's number.
type layer struct {
	b *graph.Builder
	c *Config
	i int
}

// newLayer begins layer i: nodes that are built from here on belong to it.
func newLayer(b *graph.Builder, c *Config, i int) layer {
	b.Layer(i)
	return layer{b, c, i}
}

// name is the layer's name for a value or weight: "blk.3.attn_q".
func (l layer) name(s string) string { return fmt.Sprintf("blk.%d.%s", l.i, s) }

// matrix is a weight of the layer.
func (l layer) matrix(stem string, out, in graph.Axis) *graph.Weight {
	return l.b.Weight(l.name(stem)+".weight", out, in)
}

// bias is the bias beside it, nil when the model has none.
func (l layer) bias(stem string, out graph.Axis, has bool) *graph.Weight {
	if !has {
		return nil
	}
	return l.b.Vector(l.name(stem)+".bias", out)
}

// linear is x times a weight of the layer, with its bias if it has one.
func (l layer) linear(stem string, x *graph.Value, out graph.Axis, bias bool) *graph.Value {
	return l.b.Linear(l.name(stem), x, l.matrix(stem, out, x.Axis), l.bias(stem, out, bias))
}

// norm is the model's kind of norm with a weight of the layer.
func (l layer) norm(stem string, x *graph.Value) *graph.Value {
	return norm(l.b, l.c, l.name(stem), x)
}

// norm is the model's kind of norm of whole rows.
func norm(b *graph.Builder, c *Config, name string, x *graph.Value) *graph.Value {
	w := b.Vector(name+".weight", x.Axis)
	if !c.LayerNorm {
		return b.RMSNorm(name, x, w, c.NormEps)
	}
	var bias *graph.Weight
	if c.NormBias {
		bias = b.Vector(name+".bias", x.Axis)
	}
	return b.LayerNorm(name, x, w, bias, c.NormEps)
}

// headNorm is RMSNorm of each head by itself.
func (l layer) headNorm(stem string, x *graph.Value) *graph.Value {
	return l.b.GroupRMSNorm(l.name(stem), x, l.b.Vector(l.name(stem)+".weight", l.c.head()), l.c.NormEps)
}

// selfAttention is a whole attention block on normalised rows x: projections, rotation, cache, attention, output.
func (l layer) selfAttention(x *graph.Value) *graph.Value {
	if l.c.Latent.KV > 0 {
		return l.latentAttention(x)
	}
	if l.c.FusedQKV {
		return l.attend(l.fusedQKV(x, l.c.QKVBias))
	}
	if l.c.AttnGate {
		return l.gatedAttention(x)
	}
	q := l.linear("attn_q", x, l.c.heads(), l.c.QKVBias)
	k := l.linear("attn_k", x, l.c.kv(), l.c.QKVBias)
	v := l.linear("attn_v", x, l.c.kv(), l.c.QKVBias)
	return l.attend(q, k, v)
}

// gatedAttention is an attention block whose results are multiplied by the sigmoid of a gate, number by number.
func (l layer) gatedAttention(x *graph.Value) *graph.Value {
	q, gate := l.linear("attn_q", x, l.c.heads(), false), l.linear("attn_q_gate", x, l.c.heads(), false)
	k, v := l.linear("attn_k", x, l.c.kv(), false), l.linear("attn_v", x, l.c.kv(), false)
	out := l.b.ActMul(l.name("attn_gated"), gate, l.attention(q, k, v), graph.Sigmoid)
	return l.linear("attn_output", out, l.c.hidden(), l.c.OutBias)
}

// attend goes on from queries, keys and values.
func (l layer) attend(q, k, v *graph.Value) *graph.Value {
	return l.linear("attn_output", l.attention(q, k, v), l.c.hidden(), l.c.OutBias)
}

// attention is what queries make of keys and values.
func (l layer) attention(q, k, v *graph.Value) *graph.Value {
	if !l.c.LateQKNorm {
		q, k = l.qkNorm(q, k)
	}
	r := l.c.rotation(l.i)
	if l.c.QueryGrowth.Every > 0 && (l.c.NoRope == nil || r == nil) { // before the rotation, which changes no length
		q = l.b.ScaleByPosition(l.name("q_scaled"), q, l.c.QueryGrowth)
	}
	if r != nil {
		q, k = l.b.RoPE(l.name("q_rot"), q, r), l.b.RoPE(l.name("k_rot"), k, r)
	}
	if l.c.LateQKNorm && r != nil {
		q, k = l.qkNorm(q, k)
	}
	window := l.c.Windows[l.i]
	o := graph.Attention{Scale: l.c.AttnScale, Softcap: l.c.AttnCap, Bidirectional: l.c.Encoder || l.c.Diffusion != nil, Chunked: l.c.Chunked && window > 0}
	if l.c.Encoder {
		window, o.Reach = 0, window/2
	}
	cache := l.b.Cache(l.i, l.c.kv(), l.c.kv(), window)
	cache = l.b.KVWrite(cache, k, v)
	if l.c.ScaleByLayer {
		o.Scale /= float64(l.i + 1)
	}
	var sinks []*graph.Weight
	if l.c.Sinks {
		sinks = append(sinks, l.b.Vector(l.name("attn_sinks.weight"), graph.Axis{Name: "heads", Count: l.c.Heads, Size: 1}))
	}
	return l.b.Attention(l.name("attn"), q, cache, o, sinks...)
}

// qkNorm normalises queries and keys, if the model does.
func (l layer) qkNorm(q, k *graph.Value) (*graph.Value, *graph.Value) {
	switch {
	case l.c.QKNorm:
		return l.headNorm("attn_q_norm", q), l.headNorm("attn_k_norm", k)
	case l.c.WholeQKNorm:
		return l.norm("attn_q_norm", q), l.norm("attn_k_norm", k)
	case l.c.UnitQKNorm:
		one := l.b.Ones(l.c.head())
		return l.b.GroupRMSNorm(l.name("attn_q_norm"), q, one, l.c.NormEps), l.b.GroupRMSNorm(l.name("attn_k_norm"), k, one, l.c.NormEps)
	}
	return q, k
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

// gated is the feed-forward block down(fn(gate x) × up x).
func (l layer) gated(x *graph.Value) *graph.Value {
	if l.c.FusedGate {
		name, hidden, ffn := l.name("ffn_up.weight"), l.c.hidden(), l.c.ffn()
		gate := l.b.Linear(l.name("ffn_gate"), x, l.b.Part(name, 0, ffn, hidden), nil)
		up := l.b.Linear(l.name("ffn_up"), x, l.b.Part(name, ffn.Len(), ffn, hidden), nil)
		return l.linear("ffn_down", l.b.ActMul(l.name("ffn_act"), gate, up, l.c.Act), hidden, l.c.MLPBias)
	}
	return l.gatedOf(x, "", l.c.ffn(), l.c.MLPBias)
}

// gatedOf is one with matrices of this width, whose names end so.
func (l layer) gatedOf(x *graph.Value, end string, width graph.Axis, bias bool) *graph.Value {
	gate := l.linear("ffn_gate"+end, x, width, bias)
	up := l.linear("ffn_up"+end, x, width, bias)
	return l.linear("ffn_down"+end, l.b.ActMul(l.name("ffn_act"+end), gate, up, l.c.Act), l.c.hidden(), bias)
}

// feedForward is the block of a model that has experts or has none.
func (l layer) feedForward(x *graph.Value) *graph.Value {
	if !l.c.dense(l.i) {
		return l.experts(x)
	}
	if l.c.Plain {
		return l.plain(x)
	}
	return l.gated(x)
}

// plain is the feed-forward block down(fn(up x)).
func (l layer) plain(x *graph.Value) *graph.Value {
	up := l.linear("ffn_up", x, l.c.ffn(), l.c.MLPBias)
	if l.c.XIELU != nil {
		up = l.b.XIELU(l.name("ffn_act"), up, l.c.XIELU[l.i])
	} else {
		up = l.b.Act(l.name("ffn_act"), up, l.c.Act)
	}
	return l.linear("ffn_down", up, l.c.hidden(), l.c.MLPBias)
}

// add is the residual connection after a block.
func (l layer) add(name string, x, y *graph.Value) *graph.Value { return l.b.Add(l.name(name), x, y) }

// embedding looks up the tokens.
func embedding(b *graph.Builder, c *Config) *graph.Value {
	return b.Embed("embd", b.Weight("token_embd.weight", c.vocab(), c.hidden()), c.EmbScale)
}

// logits is the head on the rows that want it: output matrix, its own or the embedding again, and soft cap.
func logits(b *graph.Builder, c *Config, x *graph.Value) *graph.Value {
	b.Hidden(x)
	name := "output.weight"
	if c.Tied {
		name = "token_embd.weight"
	}
	var bias *graph.Weight
	if c.HeadBias {
		bias = b.Vector("output.bias", c.vocab())
	}
	y := b.Linear("logits", x, b.Weight(name, c.vocab(), c.hidden()), bias)
	if c.LogitScale != 0 {
		y = b.Scale("logits", y, c.LogitScale)
	}
	if c.LogitCap != 0 {
		y = b.Softcap("logits", y, c.LogitCap)
	}
	return y
}

// head selects the rows, normalises them and makes logits.
func head(b *graph.Builder, c *Config, x *graph.Value) *graph.Value {
	b.Layer(graph.NoLayer)
	return logits(b, c, norm(b, c, "output_norm", b.SelectRows("selected", x)))
}

// preNorm is the decoder that most models are: each block reads the normalised stream and adds to it.
func preNorm(b *graph.Builder, c *Config) *graph.Value {
	x := embedding(b, c)
	for i := range c.Layers {
		l := newLayer(b, c, i)
		h := l.norm("attn_norm", x)
		sum := l.add("attn_sum", x, l.selfAttention(h))
		switch c.Parallel {
		case Sequential:
			h = l.norm("ffn_norm", sum)
		case OwnNorm:
			h = l.norm("ffn_norm", x)
		}
		x = l.add("ffn_sum", sum, l.feedForward(h))
	}
	return head(b, c, x)
}

// lateNamed is preNorm in models whose norm before the feed-forward block GGUF files call that behind attention.
func lateNamed(b *graph.Builder, c *Config) *graph.Value {
	x := embedding(b, c)
	for i := range c.Layers {
		l := newLayer(b, c, i)
		x = l.add("attn_sum", x, l.selfAttention(l.norm("attn_norm", x)))
		x = l.add("ffn_sum", x, l.feedForward(l.norm("post_attention_norm", x)))
	}
	return head(b, c, x)
}

// sandwich is a decoder whose blocks read the normalised stream and add their normalised result to it.
func sandwich(b *graph.Builder, c *Config) *graph.Value { return head(b, c, sandwiched(b, c)) }

// sandwiched is the stream behind the layers of sandwich.
func sandwiched(b *graph.Builder, c *Config) *graph.Value {
	x := embedding(b, c)
	for i := range c.Layers {
		l := newLayer(b, c, i)
		x = l.add("attn_sum", x, l.norm("post_attention_norm", l.selfAttention(l.norm("attn_norm", x))))
		x = l.add("ffn_sum", x, l.norm("post_ffw_norm", l.feedForward(l.norm("ffn_norm", x))))
	}
	return x
}

// postNorm is a decoder whose blocks read the stream as it is and add their normalised result to it.
func postNorm(b *graph.Builder, c *Config) *graph.Value {
	x := embedding(b, c)
	for i := range c.Layers {
		l := newLayer(b, c, i)
		x = l.add("attn_sum", x, l.norm("post_attention_norm", l.selfAttention(x)))
		x = l.add("ffn_sum", x, l.norm("post_ffw_norm", l.feedForward(x)))
	}
	return head(b, c, x)
}
