// Package ranks runs a program over several processes, each with a device and a part of the model. Rank 0 leads: it has the engine, and the device of the last pipeline stage whose
// results are those of the whole; the others wait for its messages and do the same on their parts (Work). What devices exchange goes through the groups of a world.World.
package ranks

import "github.com/ridge-llm/ridge/pass"

// Place is the device of a layout that a rank has: the last stage's first, so that results are where the engine is.
func Place(l pass.Layout, rank int) pass.Rank {
	return pass.Rank{Stage: l.Pipeline - 1 - rank/l.Tensor, Tensor: rank % l.Tensor}
}

// number is the rank that has a device.
func number(l pass.Layout, stage, tensor int) int { return (l.Pipeline-1-stage)*l.Tensor + tensor }

// Groups are the ranks that exchange numbers: those of each stage, then those of each tensor rank through the stages.
func Groups(l pass.Layout) (all [][]int) {
	for s := range l.Pipeline {
		var g []int
		for t := range l.Tensor {
			g = append(g, number(l, s, t))
		}
		all = append(all, g)
	}
	for t := range l.Tensor {
		var g []int
		for s := range l.Pipeline {
			g = append(g, number(l, s, t))
		}
		all = append(all, g)
	}
	return all
}
