package model

import (
	"math"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// gemma3n is Gemma 3n's text model: several residual streams of which a layer computes with one (AltUp, Baykal et al., NeurIPS 2023), small
// matrices beside attention (Laurel, arXiv:2411.07501), embeddings of each layer's own, sparse gates in the first layers, and last layers
// that attend to keys and values of an earlier one.
var gemma3n = Arch{
	Name: "gemma3n",
	HF:   []string{"Gemma3nForCausalLM", "Gemma3nForConditionalGeneration"},
	TextDefaults: map[string]any{
		"vocab_size": 262400.0, "vocab_size_per_layer_input": 262144.0, "hidden_size": 2048.0, "hidden_size_per_layer_input": 256.0,
		"num_hidden_layers": 35.0, "num_attention_heads": 8.0, "num_key_value_heads": 2.0, "head_dim": 256.0, "max_position_embeddings": 32768.0,
		"rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window": 512.0, "final_logit_softcapping": 30.0, "num_kv_shared_layers": 15.0,
		"altup_num_inputs": 4.0, "altup_active_idx": 0.0, "laurel_rank": 64.0,
	},
	Read: func(f *fields) *Config {
		widths := f.perLayer("intermediate_size", "feed_forward_length")
		if v := f.value("intermediate_size"); f.isHF() && v != nil && widths == nil {
			f.fail("field intermediate_size is %v and a list of each layer's width is wanted", v)
		}
		c := gemmaLike(f)
		c.AttnScale = 1 // the norm of queries has it
		f.layerFFN(c, widths)
		c.LogitCap = f.floatOr("final_logit_softcapping", "final_logit_softcapping", 30)
		f.listedWindows(c, f.sizeOr("sliding_window", "attention.sliding_window", 512), 5)
		gemmaRotations(f, c)
		f.readPerLayer(c, 256)
		c.SharedKV = f.sizeOr("num_kv_shared_layers", "attention.shared_kv_layers", 15)
		f.checkShared(c)
		s := &c.Streams
		s.Count, s.Active = f.sizeOr("altup_num_inputs", "altup.num_inputs", 4), f.sizeOr("altup_active_idx", "altup.active_idx", 0)
		if s.Count < 2 || s.Count > 64 || s.Active >= s.Count {
			f.fail("layers compute with stream %d of %d (altup_active_idx, altup_num_inputs); 2 to 64 streams are possible", s.Active, s.Count)
		}
		s.Rank = f.sizeOr("laurel_rank", "", 64)
		if rows, ok := f.tensor("blk.0.laurel_l.weight"); ok {
			s.Rank = rows
		}
		if s.Rank < 1 || s.Rank > maxSize {
			f.fail("field laurel_rank is %d; 1 to %d are possible", s.Rank, maxSize)
		}
		f.only("altup_correct_scale", true)
		f.ignored("altup_coef_clip") // trained coefficients keep to it
		f.sparsity(c)
		return c
	},
	Names: merged(sandwichNames, gemmaLayers, map[string]string{
		"altup_proj":                       "model.altup_projections.0",
		"altup_unembd_proj":                "model.altup_unembed_projections.0",
		"blk.N.altup_router":               "model.layers.N.altup.modality_router",
		"blk.N.altup_router_norm":          "model.layers.N.altup.router_norm",
		"blk.N.altup_predict_coef":         "model.layers.N.altup.prediction_coefs",
		"blk.N.altup_correct_coef":         "model.layers.N.altup.correction_coefs",
		"blk.N.altup_correct_scale.weight": "model.layers.N.altup.correct_output_scale",
		"blk.N.laurel_l":                   "model.layers.N.laurel.linear_left",
		"blk.N.laurel_r":                   "model.layers.N.laurel.linear_right",
		"blk.N.laurel_post_norm":           "model.layers.N.laurel.post_laurel_norm",
	}),
	Recipe: func(stem string, t recipe.Recipe, c *Config) recipe.Recipe {
		first, ok := t.(recipe.Tensor)
		if !ok || stem != "altup_proj.weight" && stem != "altup_unembd_proj.weight" {
			return t
		}
		var all recipe.Stack
		for i := range c.Streams.Count - 1 {
			all = append(all, recipe.Tensor(layerStack(string(first), i)))
		}
		return all
	},
	Build: buildGemma3n,
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

// buildGemma3n is a decoder of several streams: a layer predicts them, computes with the active one, and corrects them by what it got.
func buildGemma3n(b *graph.Builder, c *Config) *graph.Value {
	const eps = 1e-5 // of mean squares
	others := graph.Axis{Name: "streams", Count: c.Streams.Count - 1, Size: c.Hidden}
	x := embedding(b, c)
	own := perLayerEmbeddings(b, c, x)
	x = b.ExpandStreams("streams", x, b.Linear("altup_proj", x, b.Weight("altup_proj.weight", others, x.Axis), nil), eps)
	stores := make([]*graph.Value, c.Layers)
	for i := range c.Layers {
		x = newLayer(b, c, i).altUp(x, own, stores)
	}
	b.Layer(graph.NoLayer)
	x = b.SelectRows("selected", x)
	stack := graph.Axis{Name: "streams", Count: others.Count, Size: 1}
	row := graph.Axis{Name: "hidden", Count: c.Hidden, Size: 1}
	y := b.HeadLinear("altup_unembd_proj", b.Columns("other_streams", x, c.Hidden, others), b.Stack("altup_unembd_proj.weight", stack, row, row), 0)
	x = b.MeanStreams("streams_mean", b.ExpandStreams("unembedded", b.Columns("first_stream", x, 0, row), y, eps))
	return logits(b, c, norm(b, c, "output_norm", x))
}

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
