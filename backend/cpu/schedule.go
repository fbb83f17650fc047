package cpu

import (
	"slices"
	"unsafe"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
)

// schedule is a list of launches and how the workers run through it.
type schedule struct {
	launches []backend.Launch
	wait     []bool          // before which of them there is a barrier
	fused    []int           // how many of them are fused, see fuseRowBlocks
	next     []*gemm.Weights // weights of the first matmul after each of them; nil: none
	q8       []scaleGroups   // of each of them
}

// scheduleOf is the schedule of a list, made when it first runs. Lists that begin alike, such as those of steps with and without adapters,
// alternate; each keeps its own, as long as its launches live.
func scheduleOf(launches []backend.Launch) *schedule {
	first := launches[0].(*launch)
	for _, s := range first.schedules {
		if len(launches) == len(s.launches) && (unsafe.SliceData(launches) == unsafe.SliceData(s.launches) || slices.Equal(launches, s.launches)) {
			return s
		}
	}
	s := &schedule{launches: launches, wait: barriersBefore(launches), next: following(launches), q8: chooseScaleGroups(launches)}
	s.fused = fuseRowBlocks(launches, s.wait)
	adaptedRuns(launches, s.wait, s.fused)
	first.schedules = append(first.schedules, s)
	return s
}

// following is, for each launch, the first matrix that is multiplied with after it, in this step or the next.
func following(launches []backend.Launch) []*gemm.Weights {
	next := make([]*gemm.Weights, len(launches))
	var last *gemm.Weights
	for range 2 { // the second time last is the first of the next step
		for i := len(launches) - 1; i >= 0; i-- {
			next[i] = last
			if w := launches[i].(*launch).weights; w != nil {
				last = w
			}
		}
	}
	return next
}
