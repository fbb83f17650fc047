package openai

import "github.com/ridge-llm/ridge"

// DiffusionFields say how the answer of a masked diffusion model is found; OpenAI has no such models.
type DiffusionFields struct {
	DiffusionSteps     int     `json:"diffusion_steps"`
	DiffusionBlock     int     `json:"diffusion_block_length"`
	DiffusionThreshold float64 `json:"diffusion_threshold"`
	DiffusionAlgorithm string  `json:"diffusion_algorithm"`
	DiffusionExact     bool    `json:"diffusion_exact"`
	DiffusionAlgTemp   float64 `json:"diffusion_alg_temp"`
	DiffusionCFGScale  float64 `json:"diffusion_cfg_scale"`
}

// diffusion is what the fields say.
func (f *DiffusionFields) diffusion() (d ridge.Diffusion) {
	d.Steps, d.Block, d.Threshold, d.Exact = f.DiffusionSteps, f.DiffusionBlock, f.DiffusionThreshold, f.DiffusionExact
	d.AlgTemp, d.CFGScale = f.DiffusionAlgTemp, f.DiffusionCFGScale
	d.Algorithm = ridge.DiffusionAlgorithm(f.DiffusionAlgorithm)
	return d
}
