package pass

import (
	"math"
	"slices"

	"github.com/ridge-llm/ridge/graph"
)

// Steps by which stages are weighed: answers side by side, and a part of a prompt.
const (
	weighedAnswers = 16
	weighedPast    = 1024
	weighedPrompt  = 512
)

// Balanced is the layout with the layers divided among the stages of a pipeline by what they cost, unless it says how many each has: as the slowest stage needs as little time as can be. The
// output matrix counts for several layers. All devices of a group must find the same, whatever each is, so costs are those of the graph alone: half of the time is that of answers, which is
// bound by what is read, and half that of prompts, which is bound by arithmetic.
func (l Layout) Balanced(g *graph.Graph) Layout {
	layers := g.Layers()
	if l.Pipeline < 2 || l.Layers != nil || layers < l.Pipeline {
		return l
	}
	costs := layerCosts(g, layers)
	var equal []int
	for stage := range l.Pipeline {
		n := 0
		for layer := range layers {
			if l.stage(layer, layers) == stage {
				n++
			}
		}
		equal = append(equal, n)
	}
	if best := divide(costs, l.Pipeline); slowest(costs, best) < 0.999*slowest(costs, equal) {
		l.Layers = best
	}
	return l
}

// layerCosts is the part of a graph's time that each layer takes. What is before the layers counts for the first, and what is behind for the last.
func layerCosts(g *graph.Graph, layers int) []float64 {
	answers := &graph.Step{Logits: weighedAnswers}
	for range weighedAnswers {
		answers.Seqs = append(answers.Seqs, graph.Seq{New: 1, Past: weighedPast})
	}
	prompt := &graph.Step{Logits: 1, Seqs: []graph.Seq{{New: weighedPrompt, Past: weighedPrompt}}}
	bytes, flops := make([]float64, layers), make([]float64, layers)
	var allBytes, allFLOPs float64
	at := 0
	for _, n := range g.Nodes {
		if n.Layer != graph.NoLayer {
			at = n.Layer
		}
		b, f := float64(n.Op.Work(n, answers).Bytes()), float64(n.Op.Work(n, prompt).FLOPs)
		bytes[at], flops[at] = bytes[at]+b, flops[at]+f
		allBytes, allFLOPs = allBytes+b, allFLOPs+f
	}
	costs := make([]float64, layers)
	for i := range costs {
		costs[i] = bytes[i]/max(allBytes, 1) + flops[i]/max(allFLOPs, 1)
	}
	return costs
}

// divide cuts a list into so many parts, of one number at least, whose largest sum is as small as can be and which are as alike as can be then.
func divide(costs []float64, parts int) []int {
	_, most := cutParts(costs, parts, math.Inf(1), math.Max)
	lengths, _ := cutParts(costs, parts, most, func(before, sum float64) float64 { return before + sum*sum })
	return lengths
}

// cutParts cuts a list into parts with sums of most at most for which what of makes of their sums, one after the other, is least.
func cutParts(costs []float64, parts int, most float64, of func(before, sum float64) float64) (lengths []int, least float64) {
	n := len(costs)
	sums := make([]float64, n+1)
	for i, c := range costs {
		sums[i+1] = sums[i] + c
	}
	best := make([]float64, n+1) // of the first numbers in so many parts
	for i := range best[1:] {
		best[i+1] = math.Inf(1)
	}
	begins := make([][]int, parts) // of the last of them
	for k := range parts {
		next, begin := make([]float64, n+1), make([]int, n+1)
		for i := range next {
			next[i] = math.Inf(1)
			for j := k; j < i; j++ {
				if sum := sums[i] - sums[j]; sum <= most*(1+1e-9) && of(best[j], sum) < next[i] {
					next[i], begin[i] = of(best[j], sum), j
				}
			}
		}
		best, begins[k] = next, begin
	}
	for k, end := parts-1, n; k >= 0; k-- {
		lengths, end = append(lengths, end-begins[k][end]), begins[k][end]
	}
	slices.Reverse(lengths)
	return lengths, best[n]
}

// slowest is the largest sum of parts of so many numbers.
func slowest(costs []float64, lengths []int) (most float64) {
	at := 0
	for _, n := range lengths {
		sum := 0.0
		for _, c := range costs[at : at+n] {
			sum += c
		}
		most, at = max(most, sum), at+n
	}
	return most
}
