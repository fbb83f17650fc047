package model

import (
	"cmp"
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// rotation reads the model's rotary embedding. Hugging Face writes it as rope_parameters (transformers 5) or as
// rope_theta and rope_scaling; GGUF as rope.* keys and, for divisors, as tensors.
func (f *fields) rotation(c *Config, ggufPairing graph.Pairing) *graph.Rotation {
	if f.isHF() {
		p := f.object("rope_parameters")
		if p == nil {
			p = f.object("rope_scaling")
		}
		return f.hfRotation(c, "angles", p)
	}
	r := &graph.Rotation{Name: "angles", Pairing: ggufPairing}
	r.Theta = f.floatOr("", "rope.freq_base", 10000)
	r.Dim = f.sizeOr("", "rope.dimension_count", c.HeadDim)
	f.ggufScaling(c, r)
	f.checkRotation(c, r)
	return r
}

// hfRotation reads one set of rope parameters; nil means the default kind.
func (f *fields) hfRotation(c *Config, name string, params map[string]any) *graph.Rotation {
	p := &ropeParams{f: f, m: params, main: name == "angles"}
	r := &graph.Rotation{Name: name, Pairing: graph.HalfPairs}
	r.Theta = p.orOutside("rope_theta", 10000)
	partial := p.orOutside("partial_rotary_factor", 1)
	r.Dim = int(float64(c.HeadDim) * partial)
	f.note("rope.freq_base", float32(r.Theta))
	f.note("rope.dimension_count", uint32(r.Dim))
	kind := cmp.Or(p.word("rope_type"), p.word("type"))
	// The context before stretching: its own field, else beside the other parameters, else the whole context.
	orig := int(p.float("original_max_position_embeddings", float64(c.Context)))
	orig = f.sizeOr("original_max_position_embeddings", "", orig)
	s := &r.Scaling
	switch kind {
	case "", "default":
	case "proportional": // the pairs lie as those of whole heads
		r.Dim = c.HeadDim
		f.note("rope.dimension_count", uint32(r.Dim))
		*s = graph.Scaling{Kind: graph.DivisorsScaling, Short: proportional(r.Dim/2, partial, p.float("factor", 1))}
	case "linear":
		*s = graph.Scaling{Kind: graph.LinearScaling, Factor: p.must("factor")}
		f.note("rope.scaling.type", "linear")
		f.note("rope.scaling.factor", float32(s.Factor))
	case "dynamic":
		*s = graph.Scaling{Kind: graph.DynamicScaling, Factor: p.must("factor"), OrigContext: c.Context}
	case "llama3":
		*s = graph.Scaling{
			Kind: graph.Llama3Scaling, Factor: p.must("factor"), OrigContext: orig,
			LowFreq: p.must("low_freq_factor"), HighFreq: p.must("high_freq_factor"),
		}
	case "yarn":
		f.hfYarn(c, s, p, orig)
	case "longrope", "su":
		f.hfLong(c, s, p, orig)
	default:
		f.fail("rope type %q is not supported; default, linear, dynamic, llama3, yarn, longrope and proportional are", kind)
	}
	f.checkRotation(c, r)
	return r
}

// hfYarn reads YaRN's parameters with the defaults of transformers' _compute_yarn_parameters.
func (f *fields) hfYarn(c *Config, s *graph.Scaling, p *ropeParams, orig int) {
	*s = graph.Scaling{Kind: graph.YarnScaling, OrigContext: orig}
	s.Factor = p.float("factor", float64(c.Context)/float64(max(orig, 1)))
	s.BetaFast, s.BetaSlow = p.float("beta_fast", 32), p.float("beta_slow", 1)
	s.Exact = !p.flag("truncate", true)
	usual := yarnMagnitude(s.Factor, 1)
	s.Magnitude = usual
	if m, all := p.float("mscale", 0), p.float("mscale_all_dim", 0); m != 0 && all != 0 {
		s.Magnitude = yarnMagnitude(s.Factor, m) / yarnMagnitude(s.Factor, all)
	}
	s.Magnitude = p.float("attention_factor", s.Magnitude)
	f.note("rope.scaling.type", "yarn")
	f.note("rope.scaling.factor", float32(s.Factor))
	f.note("rope.scaling.original_context_length", uint32(orig))
	f.note("rope.scaling.yarn_beta_fast", float32(s.BetaFast))
	f.note("rope.scaling.yarn_beta_slow", float32(s.BetaSlow))
	f.note("rope.scaling.attn_factor", float32(s.Magnitude/usual))
}

// yarnMagnitude is YaRN's temperature for a stretch by factor.
func yarnMagnitude(factor, weight float64) float64 {
	if factor <= 1 {
		return 1
	}
	return 0.1*weight*math.Log(factor) + 1
}

// hfLong reads LongRoPE's parameters.
func (f *fields) hfLong(c *Config, s *graph.Scaling, p *ropeParams, orig int) {
	*s = graph.Scaling{Kind: graph.LongScaling, OrigContext: orig, Short: p.list("short_factor"), Long: p.list("long_factor")}
	factor := float64(c.Context) / float64(max(orig, 1))
	if f.value("original_max_position_embeddings") == nil {
		factor = p.float("factor", factor)
	}
	s.Magnitude = longMagnitude(factor, orig)
	s.Magnitude = p.float("attention_factor", s.Magnitude)
	f.note("rope.scaling.type", "longrope")
	f.note("rope.scaling.original_context_length", uint32(orig))
	f.note("rope.scaling.attn_factor", float32(s.Magnitude))
}

// longMagnitude is LongRoPE's, for a context stretched by factor from orig tokens.
func longMagnitude(factor float64, orig int) float64 {
	if factor <= 1 || orig < 2 {
		return 1
	}
	return math.Sqrt(1 + math.Log(factor)/math.Log(float64(orig)))
}

// ggufScaling reads GGUF's rope scaling (docs/gguf.md, "RoPE").
func (f *fields) ggufScaling(c *Config, r *graph.Rotation) {
	s := &r.Scaling
	kind, ok := f.meta("rope.scaling.type").(string)
	if v := f.meta("rope.scaling.type"); v != nil && !ok {
		f.fail("field %s.rope.scaling.type is %v and a word is wanted", f.arch, v)
	}
	orig := f.sizeOr("", "rope.scaling.original_context_length", c.Context)
	switch kind {
	case "", "none":
	case "linear":
		*s = graph.Scaling{Kind: graph.LinearScaling, Factor: f.float("", "rope.scaling.factor")}
	case "yarn":
		*s = graph.Scaling{
			Kind: graph.YarnScaling, OrigContext: orig, Factor: f.float("", "rope.scaling.factor"),
			BetaFast: f.floatOr("", "rope.scaling.yarn_beta_fast", 32), BetaSlow: f.floatOr("", "rope.scaling.yarn_beta_slow", 1),
		}
		s.Magnitude = yarnMagnitude(s.Factor, 1) * f.floatOr("", "rope.scaling.attn_factor", 1)
	case "longrope": // its divisors are tensors, below
	default:
		f.fail("field %s.rope.scaling.type is %q; none, linear, yarn and longrope are supported", f.arch, kind)
	}
	if f.files == nil {
		return
	}
	if d, ok := f.divisors("rope_freqs.weight"); ok {
		*s = graph.Scaling{Kind: graph.DivisorsScaling, Short: d}
	}
	if short, ok := f.divisors("rope_factors_short.weight"); ok {
		long, ok := f.divisors("rope_factors_long.weight")
		if !ok {
			f.fail("it has tensor rope_factors_short.weight and no rope_factors_long.weight")
		}
		*s = graph.Scaling{Kind: graph.LongScaling, OrigContext: orig, Short: short, Long: long}
		s.Magnitude = f.floatOr("", "rope.scaling.attn_factor", longMagnitude(float64(c.Context)/float64(max(orig, 1)), orig))
	}
}

// divisors reads a vector of a GGUF file.
func (f *fields) divisors(tensor string) ([]float64, bool) {
	t, ok := f.files.Tensor(tensor)
	if !ok || t.Rows != 1 {
		return nil, false
	}
	x := make([]float32, t.Cols)
	quant.Decode(t.Format, x, t.Data)
	d := make([]float64, len(x))
	for i := range x {
		d[i] = float64(x[i])
	}
	return d, true
}

// checkRotation refuses numbers from which no angle can be computed.
func (f *fields) checkRotation(c *Config, r *graph.Rotation) {
	s := r.Scaling
	scaled := s.Kind == graph.LinearScaling || s.Kind == graph.DynamicScaling || s.Kind == graph.Llama3Scaling || s.Kind == graph.YarnScaling
	switch {
	case r.Theta <= 0:
		f.fail("its rope theta is %g and must be above 0", r.Theta)
	case r.Dim < 2 || r.Dim%2 != 0 || r.Dim > c.HeadDim:
		f.fail("it rotates %d of the %d dimensions of a head; an even number of at most all is possible", r.Dim, c.HeadDim)
	case scaled && s.Factor <= 0:
		f.fail("its rope factor is %g and must be above 0", s.Factor)
	case s.Kind == graph.DynamicScaling && r.Dim < 4:
		f.fail("dynamic rope scaling needs at least 4 rotated dimensions and it has %d", r.Dim)
	case s.Kind != graph.NoScaling && s.Kind != graph.LinearScaling && s.Kind != graph.DivisorsScaling && s.OrigContext <= 0:
		f.fail("its context before rope scaling is %d and must be above 0", s.OrigContext)
	}
	for _, list := range [][]float64{s.Short, s.Long} {
		if list != nil && len(list) != r.Dim/2 {
			f.fail("it has %d rope divisors for %d pairs", len(list), r.Dim/2)
		}
		for i, d := range list {
			if !(d > 0) || math.IsInf(d, 0) {
				f.fail("its rope divisor %d is %g and must be above 0", i, d)
			}
		}
	}
}

// ropeParams reads a rope_parameters or rope_scaling object.
type ropeParams struct {
	f    *fields
	m    map[string]any
	main bool // fields of config.json outside of the object are of these parameters, and not of those of layers with a window
}

// value is a parameter, nil when absent, which counts as read.
func (p *ropeParams) value(key string) any {
	p.f.read[key] = true
	return p.m[key]
}

// word is a parameter that is a word, "" when absent.
func (p *ropeParams) word(key string) string {
	v := p.value(key)
	s, ok := v.(string)
	if v != nil && !ok {
		p.f.fail("rope parameter %s is %v and a word is wanted", key, v)
	}
	return s
}

// flag is a parameter that is true or false.
func (p *ropeParams) flag(key string, otherwise bool) bool {
	v := p.value(key)
	if v == nil {
		return otherwise
	}
	b, ok := v.(bool)
	if !ok {
		p.f.fail("rope parameter %s is %v and true or false is wanted", key, v)
	}
	return b
}

func (p *ropeParams) float(key string, otherwise float64) float64 {
	v := p.value(key)
	if v == nil {
		return otherwise
	}
	n, ok := number(v)
	if !ok || !(n >= 0 && n <= maxNumber) {
		p.f.fail("rope parameter %s is %v and a number of 0 to %g is wanted", key, v, maxNumber)
		return otherwise
	}
	return n
}

// orOutside is a parameter that may stand in the object or, in older files, outside of it. Where both are there and say different things, the
// object counts, as in transformers 5, which is warned of.
func (p *ropeParams) orOutside(key string, otherwise float64) float64 {
	outside := p.f.floatOr(key, "", otherwise)
	v := p.float(key, outside)
	if v != outside && p.main && p.f.hf[key] != nil && !p.f.assumed[key] {
		p.f.warnings = append(p.f.warnings, fmt.Sprintf("%s: field %s is %g, and %g among the parameters of RoPE, which count; where the field is right, answers are wrong", p.f.name, key, outside, v))
	}
	return v
}

func (p *ropeParams) must(key string) float64 {
	if p.value(key) == nil {
		p.f.fail("rope parameter %s is missing", key)
		return 1
	}
	return p.float(key, 1)
}

func (p *ropeParams) list(key string) []float64 {
	raw, _ := p.value(key).([]any)
	out := make([]float64, 0, len(raw))
	for i, v := range raw {
		n, ok := number(v)
		if !ok {
			p.f.fail("rope parameter %s[%d] is %v and a number is wanted", key, i, v)
		}
		out = append(out, n)
	}
	if len(out) == 0 {
		p.f.fail("rope parameter %s is missing", key)
	}
	return out
}
