package main

import (
	"github.com/spf13/pflag"

	"github.com/ridge-llm/ridge"
)

// addDiffusion adds the flags for answers of masked diffusion models.
func addDiffusion(fl *pflag.FlagSet, d *ridge.Diffusion) {
	fl.IntVar(&d.Steps, "diffusion-steps", 0, "of a masked diffusion model (LLaDA, Dream): in how many steps the longest answer is found; 0: one for each token")
	fl.IntVar(&d.Block, "diffusion-block-length", 0, "tokens that are found side by side before the next ones are begun; 0: the model's own, or 32")
	fl.Float64Var(&d.Threshold, "diffusion-threshold", 0, "fix in a step all tokens that the model is as sure of as that, 0 to 1, in place of a number by --diffusion-steps; 0: by steps")
	fl.StringVar((*string)(&d.Algorithm), "diffusion-algorithm", "", "which tokens come first: low_confidence (the most probable ones; maskgit_plus is the same), topk_margin, entropy, or at random: random (LLaDA's) or origin (Dream's); default low_confidence")
	fl.Float64Var(&d.AlgTemp, "diffusion-alg-temp", 0, "draw which tokens come first, by how sure the model is of them over this temperature (Dream's alg_temp); 0: the surest")
	fl.Float64Var(&d.CFGScale, "diffusion-cfg-scale", 0, "scale of guidance: each step is two, the second without the prompt, and what the prompt changes counts for so much more (LLaDA's cfg_scale); 0: none")
	fl.BoolVar(&d.Exact, "diffusion-exact", false, "compute the prompt and the longest answer again in every step, as the models' own programs do, and keep nothing")
}
