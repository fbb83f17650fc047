// Package diffusion decides which tokens of an answer a masked diffusion model finds in which order (LLaDA, arXiv:2502.09992; Dream,
// arXiv:2508.15487; parallel decoding by a threshold: Fast-dLLM, arXiv:2505.22618). An answer is found block by block. A block begins as masked
// tokens, all of which the model proposes tokens for in every step; those that it is surest of are fixed, and the others stay masked until a later step.
//
// It knows numbers only: what proposes tokens, and where they go, is the engine's.
package diffusion
