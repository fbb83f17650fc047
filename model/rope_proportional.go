package model

import "github.com/ridge-llm/ridge/graph"

// still is the divisor of a pair that does not turn, as llama.cpp has it.
const still = 1e30

// proportional is the divisors of a rotation of whole heads of which the first share of the pairs turns.
func proportional(pairs int, share, factor float64) []float64 {
	d := make([]float64, pairs)
	for i := range d {
		if d[i] = factor; i >= int(share*float64(2*pairs))/2 {
			d[i] = still
		}
	}
	return d
}

// proportionalRotations reads the rotation of layers without a window, of whose heads' pairs only the first turn, and that of the others.
func (f *fields) proportionalRotations(c *Config) {
	full := *c
	full.HeadDim = c.Full.Size
	if !f.isHF() {
		c.Rotation = f.rotation(&full, graph.HalfPairs)
		local := &graph.Rotation{Name: "local_angles", Pairing: graph.HalfPairs}
		local.Theta, local.Dim = f.floatOr("", "rope.freq_base_swa", 10000), f.sizeOr("", "rope.dimension_count_swa", c.HeadDim)
		f.checkRotation(c, local)
		c.Windowed = local
		return
	}
	both := f.object("rope_parameters")
	of := func(kind string, otherwise map[string]any) map[string]any {
		if p := f.part(both, kind); p != nil || both != nil {
			return p
		}
		return otherwise
	}
	c.Windowed = f.hfRotation(c, "local_angles", of("sliding_attention", map[string]any{"rope_theta": 1e4}))
	f.note("rope.freq_base_swa", float32(c.Windowed.Theta))
	f.note("rope.dimension_count_swa", uint32(c.Windowed.Dim))
	c.Rotation = f.hfRotation(&full, "angles", of("full_attention", map[string]any{"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}))
}
