package model

import (
	"math"

	"github.com/ridge-llm/ridge/graph"
)

// Residual streams of which a layer computes with one, and sparse gates: Gemma 3n.

// altUp is a layer on streams x, with embeddings of its own.
func (l layer) altUp(x, own *graph.Value, stores []*graph.Value) *graph.Value {
	n, hidden := l.c.Streams.Count, l.c.hidden()
	active := func(name string, x *graph.Value) *graph.Value {
		return l.b.Columns(l.name(name), x, l.c.Streams.Active*l.c.Hidden, hidden)
	}
	mix := l.linear("altup_predict_coef", l.modalities(active("active", x)), graph.Axis{Name: "mix", Count: n * n, Size: 1}, false)
	predicted := l.b.MixStreams(l.name("predicted"), x, mix)
	from := active("active_predicted", predicted)

	h := l.norm("attn_norm", from)
	laurel := l.linear("laurel_r", l.linear("laurel_l", h, graph.Axis{Name: "laurel", Count: l.c.Streams.Rank, Size: 1}, false), hidden, false)
	laurel = l.add("laurel_sum", h, l.norm("laurel_post_norm", laurel))
	y := l.add("attn_sum", from, l.norm("post_attention_norm", l.sharingAttention(h, stores)))
	y = l.b.Scale(l.name("attn_laurel"), l.add("attn_laurel_sum", y, laurel), math.Sqrt2/2)
	y = l.add("ffn_sum", y, l.norm("post_ffw_norm", l.sparseGated(l.norm("ffn_norm", y))))

	by := l.linear("altup_correct_coef", l.modalities(y), graph.Axis{Name: "streams", Count: n, Size: 1}, false)
	innovation := l.add("innovation", y, l.b.Scale(l.name("minus_predicted"), from, -1))
	x = l.b.AddScaledToStreams(l.name("corrected"), predicted, innovation, by)
	first := l.b.ScaleColumns(l.name("corrected_scaled"), active("active_corrected", x), l.b.Vector(l.name("altup_correct_scale.weight"), hidden))
	return l.b.AddToStreams(l.name("streams"), x, l.perLayerInput(first, own), 1)
}

// modalities is a number for each stream, of -1 to 1, of rows of one stream.
func (l layer) modalities(x *graph.Value) *graph.Value {
	y := l.b.Scale(l.name("altup_scaled"), l.norm("altup_router_norm", x), 1/float64(l.c.Hidden))
	y = l.linear("altup_router", y, graph.Axis{Name: "streams", Count: l.c.Streams.Count, Size: 1}, false)
	return l.b.Softcap(l.name("modalities"), y, 1) // tanh
}

// sparseGated is a feed-forward block whose gates are 0 where they are not far above the mean.
func (l layer) sparseGated(x *graph.Value) *graph.Value {
	if l.c.Sparsity == nil || math.IsInf(l.c.Sparsity[l.i], -1) {
		return l.gatedOf(x, "", l.ffn(), false)
	}
	gate := l.b.GaussianTopK(l.name("ffn_gate_sparse"), l.linear("ffn_gate", x, l.ffn(), false), l.c.Sparsity[l.i])
	up := l.linear("ffn_up", x, l.ffn(), false)
	return l.linear("ffn_down", l.b.ActMul(l.name("ffn_act"), gate, up, l.c.Act), l.c.hidden(), false)
}

// sparsity reads which share of each layer's gates is 0: in config.json as that share, in GGUF as the deviations above the mean at which a
// normal distribution has it.
func (f *fields) sparsity(c *Config) {
	const key = "activation_sparsity_scale"
	if c.Layers > maxLayers {
		return
	}
	scales := make([]float64, c.Layers)
	for i := range scales {
		scales[i] = math.Inf(-1)
	}
	if v, ok := f.metaList(key).([]float32); ok {
		if f.eachLayer(c, len(v), f.arch+"."+key) {
			for i, s := range v {
				scales[i] = float64(s)
			}
		}
	}
	shares := f.value("activation_sparsity_pattern")
	if list, ok := shares.([]any); ok && f.isHF() {
		if !f.eachLayer(c, len(list), "activation_sparsity_pattern") {
			return
		}
		for i, v := range list {
			scales[i] = f.deviations(v)
		}
	} else if shares != nil {
		for i := range scales {
			scales[i] = f.deviations(shares)
		}
	}
	written, some := make([]float32, len(scales)), false
	for i, s := range scales {
		written[i], some = float32(s), some || !math.IsInf(s, -1)
		if math.IsNaN(s) || math.IsInf(s, 1) {
			f.fail("the gates of layer %d are 0 up to %g deviations above the mean, which is no number", i, s)
		}
	}
	if some {
		c.Sparsity = scales
	}
	f.note(key, written)
}

// deviations is where a normal distribution has a share below, in deviations from the mean, as float32 holds it.
func (f *fields) deviations(share any) float64 {
	p, ok := number(share)
	if !ok || p < 0 || p >= 1 {
		f.fail("field activation_sparsity_pattern has %v; numbers from 0 to less than 1 are possible", share)
		return 0
	}
	if p == 0 {
		return math.Inf(-1)
	}
	return float64(float32(math.Sqrt2 * math.Erfinv(2*p-1)))
}
