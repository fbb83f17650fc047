package cpu

import (
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
)

// TestFollowing: after the last matmul of a step comes the first of the next.
func TestFollowing(t *testing.T) {
	a, b := &gemm.Weights{}, &gemm.Weights{}
	list := launchesOf(nil, a, nil, b, nil)
	for i, want := range []*gemm.Weights{a, b, b, a, a} {
		if got := following(list)[i]; got != want {
			t.Errorf("launch %d is followed by another matrix than it should be", i)
		}
	}
	if following(launchesOf(nil, nil))[0] != nil {
		t.Error("a step without matmuls is followed by one")
	}
}

func launchesOf(weights ...*gemm.Weights) []backend.Launch {
	var all []backend.Launch
	for _, w := range weights {
		all = append(all, &launch{weights: w})
	}
	return all
}
