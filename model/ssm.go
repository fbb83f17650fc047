package model

import (
	"cmp"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// ssmNames are Hugging Face's names of a state space layer, under its module's.
func ssmNames(module string) map[string]string {
	return under(module, map[string]string{
		"blk.N.ssm_in":      "in_proj",
		"blk.N.ssm_conv1d":  "conv1d",
		"blk.N.ssm_a":       "A_log",
		"blk.N.ssm_d":       "D",
		"blk.N.ssm_dt.bias": "dt_bias",
		"blk.N.ssm_norm":    "norm",
		"blk.N.ssm_x":       "x_proj",
		"blk.N.ssm_dt":      "dt_proj",
		"blk.N.ssm_out":     "out_proj",
	})
}

// scanNames are those of Mamba 1, whose steps come from a matrix with a bias.
func scanNames(module string) map[string]string {
	names := ssmNames(module)
	delete(names, "blk.N.ssm_dt.bias")
	names["blk.N.ssm_dt_norm"] = module + ".dt_layernorm"
	names["blk.N.ssm_b_norm"] = module + ".b_layernorm"
	names["blk.N.ssm_c_norm"] = module + ".c_layernorm"
	return names
}

// ssmRecipe: decays are stored as logarithms.
func ssmRecipe(stem string, t recipe.Recipe, _ *Config) recipe.Recipe {
	if stem == "blk.N.ssm_a" {
		return recipe.NegExp{Of: t}
	}
	return t
}

// mamba2 is a Mamba 2 layer on normalised rows h: one matrix of gates, inputs with B and C, and steps; convolution, scan, gate, norm, output.
func (l layer) mamba2(h *graph.Value) *graph.Value {
	o := l.c.SSM
	inner, heads := graph.Axis{Name: "inner", Count: o.Heads, Size: o.HeadSize}, graph.Axis{Name: "inner", Count: o.Heads, Size: 1}
	xbc, width := graph.Axis{Name: "xbc", Count: o.Width(), Size: 1}, graph.Axis{Name: "width", Count: l.c.ConvWidth, Size: 1}
	part := func(name string, from int, out graph.Axis) *graph.Value {
		return l.linearPart(name, "ssm_in", h, from, out)
	}
	gate, x, dt := part("ssm_z", 0, inner), part("ssm_xbc", inner.Len(), xbc), part("ssm_dt", inner.Len()+xbc.Len(), heads)
	x = l.b.CausalConv(l.name("conv"), l.i, x, l.matrix("ssm_conv1d", xbc, width), l.bias("ssm_conv1d", xbc, l.c.ConvBias), true)
	y := l.b.SSD(l.name("ssm"), l.i, x, dt, o, l.b.Vector(l.name("ssm_a"), heads), l.bias("ssm_dt", heads, true), l.b.Vector(l.name("ssm_d"), heads))
	y = l.b.ActMul(l.name("ssm_gated"), gate, y, graph.Silu)
	if l.c.SSMNorm {
		norm := graph.RMSNorm{Eps: cmp.Or(l.c.GateEps, l.c.NormEps), Groups: l.c.NormGroups}
		y = l.b.Emit(l.name("ssm_norm"), norm, []*graph.Value{y}, l.b.Vector(l.name("ssm_norm.weight"), inner))[0]
	}
	return l.linear("ssm_out", y, l.c.hidden(), l.c.ProjBias)
}

// readSSM reads a Mamba 2 layer's sizes by the names of their fields; every width of a block of GGUF's has a key.
func (f *fields) readSSM(c *Config, heads, headSize, groups, state, conv string) {
	c.ConvWidth = f.size(conv, "ssm.conv_kernel")
	o := graph.SSD{Heads: f.size(heads, "ssm.time_step_rank"), Groups: f.size(groups, "ssm.group_count"), StateSize: f.size(state, "ssm.state_size")}
	if o.HeadSize = f.sizeOr(headSize, "", 0); !f.isHF() {
		o.HeadSize = f.size("", "ssm.inner_size") / max(o.Heads, 1)
	}
	f.note("ssm.inner_size", uint32(o.Heads*o.HeadSize))
	o.MinStep, o.MaxStep = f.stepLimits()
	if o.Heads < 1 || o.HeadSize < 1 || o.Groups < 1 || o.Heads%o.Groups != 0 || o.StateSize < 1 || o.Heads > maxSize/o.HeadSize || o.Groups > maxSize/o.StateSize {
		f.fail("its %d heads of %d cannot share %d groups of states of %d equally", o.Heads, o.HeadSize, o.Groups, o.StateSize)
		return
	}
	c.SSM = o
}

// stepLimits reads the bounds of Mamba 2's steps; 0: there is none. Infinity is written as an object.
func (f *fields) stepLimits() (low, high float64) {
	v := f.value("time_step_limit")
	if v == nil {
		return 0, 0
	}
	limits, _ := v.([]any)
	if len(limits) == 2 {
		var lowest, highest bool
		low, lowest = number(limits[0])
		if high, highest = number(limits[1]); !highest {
			o, _ := limits[1].(map[string]any)
			highest = o["__float__"] == "Infinity"
		}
		if lowest && highest {
			return low, high
		}
	}
	f.fail("field time_step_limit is %v; the smallest and the largest step are wanted", v)
	return 0, 0
}

// mamba1 is a Mamba 1 layer on normalised rows h: inputs and gates in one matrix; convolution; steps, B and C from what it gives.
func (l layer) mamba1(h *graph.Value) *graph.Value {
	s := l.c.Scan
	inner, rank, state := graph.Axis{Name: "inner", Count: s.Inner, Size: 1}, graph.Axis{Name: "rank", Count: s.Rank, Size: 1}, graph.Axis{Name: "state", Count: s.State, Size: 1}
	x, gate := l.linearPart("ssm_xin", "ssm_in", h, 0, inner), l.linearPart("ssm_z", "ssm_in", h, s.Inner, inner)
	width := graph.Axis{Name: "width", Count: l.c.ConvWidth, Size: 1}
	x = l.b.CausalConv(l.name("conv"), l.i, x, l.matrix("ssm_conv1d", inner, width), l.bias("ssm_conv1d", inner, l.c.ConvBias), true)
	part := func(name string, from int, out graph.Axis) *graph.Value {
		return l.b.Linear(l.name(name), x, l.b.Part(l.name("ssm_x.weight"), from, out, x.Axis), nil)
	}
	dt, in, out := part("ssm_rank", 0, rank), part("ssm_b", s.Rank, state), part("ssm_c", s.Rank+s.State, state)
	if s.Norms {
		dt, in, out = l.norm("ssm_dt_norm", dt), l.norm("ssm_b_norm", in), l.norm("ssm_c_norm", out)
	}
	if s.UnitNorms > 0 {
		unit := func(stem string, x *graph.Value) *graph.Value {
			return l.b.RMSNorm(l.name(stem), x, l.b.Ones(x.Axis), s.UnitNorms)
		}
		dt, in, out = unit("ssm_dt_norm", dt), unit("ssm_b_norm", in), unit("ssm_c_norm", out)
	}
	dt = l.linear("ssm_dt", dt, inner, true)
	y := l.b.SelectiveScan(l.name("ssm"), l.i, x, dt, in, out, l.b.Weight(l.name("ssm_a"), inner, state), l.b.Vector(l.name("ssm_d"), inner))
	return l.linear("ssm_out", l.b.ActMul(l.name("ssm_gated"), gate, y, graph.Silu), l.c.hidden(), l.c.ProjBias)
}

// readScan reads a Mamba 1 layer's sizes.
func (f *fields) readScan(c *Config, inner int, state, rank, conv string) {
	c.ConvWidth = f.size(conv, "ssm.conv_kernel")
	s := Scan{Inner: f.sizeOr("", "ssm.inner_size", inner), State: f.size(state, "ssm.state_size"), Rank: f.size(rank, "ssm.time_step_rank")}
	if s.Inner < 1 || s.State < 1 || s.Rank < 1 || s.Inner > maxSize || s.State > maxSize/s.Inner || s.Rank > maxSize {
		f.fail("its layers have %d numbers with states of %d and steps of rank %d; 1 or more are possible", s.Inner, s.State, s.Rank)
		return
	}
	c.Scan = s
}
