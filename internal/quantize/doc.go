// Package quantize makes quantised checkpoints out of models: it runs a calibration text through the model's graph block by block, gathers
// of each linear layer's inputs what the methods need, and rounds its matrix, so that only one block's weights are in memory.
//
//	blocks.go       a graph cut into blocks, and their linear layers by what they read
//	part.go         a part of a graph as a graph of its own
//	run.go          runs parts over the calibration text
//	stats.go        what is gathered of a layer's inputs: the sum of outer products (the Hessian of the layer's error), magnitudes
//	grid.go         grids of codes with scales and zero points, and matrices on them
//	gptq.go …       the methods
//	checkpoint.go   a Hugging Face directory in the layouts that transformers and vLLM load
//	state.go        what is kept between blocks, so that a run can be resumed
package quantize
