package pass

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/model"
)

// TestBalanced: a stage with the output matrix has fewer layers, by as many as that costs; what a layout says stays.
func TestBalanced(t *testing.T) {
	for _, c := range []struct {
		shape string
		in    Layout
		want  []int
	}{
		{"llama-3.2-1b", Layout{Tensor: 1, Pipeline: 2, Data: 1}, []int{9, 7}},
		{"llama-3.1-8b", Layout{Tensor: 1, Pipeline: 2, Data: 1}, nil}, // a layer more would be worse
		{"llama-3.1-8b", Layout{Tensor: 2, Pipeline: 8, Data: 1}, []int{4, 4, 5, 4, 4, 4, 4, 3}},
		{"llama-3.2-1b", Layout{Tensor: 1, Pipeline: 4, Data: 1}, []int{4, 5, 4, 3}},
		{"llama-2-70b", Layout{Tensor: 1, Pipeline: 2, Data: 1}, nil},
		{"llama-3.2-1b", Layout{Tensor: 2, Pipeline: 1, Data: 1}, nil},
		{"llama-3.2-1b", Layout{Tensor: 1, Pipeline: 2, Data: 1, Layers: []int{3, 13}}, []int{3, 13}},
		{"llama-3.2-1b", Layout{Tensor: 1, Pipeline: 17, Data: 1}, nil}, // which Check refuses
	} {
		m, err := model.Shape(c.shape)
		if err != nil {
			t.Fatal(err)
		}
		g, err := m.Graph(model.Options{Act: graph.BF16, Cache: graph.F16})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.in.Balanced(g); !slices.Equal(got.Layers, c.want) {
			t.Errorf("%s, %s: stages have %v layers and should have %v", c.shape, c.in, got.Layers, c.want)
		}
	}
}

// TestDivide: the largest part is as small as that of the best of all ways, tried one after the other.
func TestDivide(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		costs := make([]float64, 2+rnd.IntN(7))
		for i := range costs {
			costs[i] = float64(rnd.IntN(5))
		}
		parts := 1 + rnd.IntN(len(costs))
		best := slowest(costs, []int{len(costs)}) + 1
		var try func(lengths []int, left int)
		try = func(lengths []int, left int) {
			if len(lengths) == parts-1 {
				if left > 0 {
					best = min(best, slowest(costs, append(slices.Clone(lengths), left)))
				}
				return
			}
			for n := 1; n < left; n++ {
				try(append(slices.Clone(lengths), n), left-n)
			}
		}
		try(nil, len(costs))
		got := divide(costs, parts)
		sum := 0
		for _, n := range got {
			sum += n
		}
		if len(got) != parts || sum != len(costs) || slices.Min(got) < 1 || slowest(costs, got) > best*(1+1e-9) {
			t.Errorf("%v in %d parts: %v, whose largest is %g; %g is possible", costs, parts, got, slowest(costs, got), best)
		}
	}
}
