package openai

import "github.com/ridge-llm/ridge"

// diffusionFields say how the answer of a masked diffusion model is found; OpenAI has no such models.
type diffusionFields struct {
	DiffusionSteps     int     `json:"diffusion_steps"`
	DiffusionBlock     int     `json:"diffusion_block_length"`
	DiffusionThreshold float64 `json:"diffusion_threshold"`
	DiffusionAlgorithm string  `json:"diffusion_algorithm"`
	DiffusionExact     bool    `json:"diffusion_exact"`
}

// diffusion is what the fields say.
func (f *diffusionFields) diffusion() (d ridge.Diffusion) {
	d.Steps, d.Block, d.Threshold, d.Exact = f.DiffusionSteps, f.DiffusionBlock, f.DiffusionThreshold, f.DiffusionExact
	d.Algorithm = ridge.DiffusionAlgorithm(f.DiffusionAlgorithm)
	return d
}
