package pass_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/pass"
)

// TestPlaceExperts: every expert is somewhere, none twice on one device, all slots are taken, and the device with most load has much less, on average, than in order.
func TestPlaceExperts(t *testing.T) {
	placed, ordered := 0.0, 0.0
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		devices := 1 + rnd.IntN(8)
		share := 1 + rnd.IntN(8)
		experts := devices * share
		slots := share + rnd.IntN(experts-share+1)
		loads := make([]float32, experts)
		for e := range loads {
			if loads[e] = float32(rnd.ExpFloat64()); rnd.IntN(10) == 0 {
				loads[e] *= 20
			}
			if seed%5 == 0 {
				loads[e] = 0
			}
		}
		places := pass.PlaceExperts(loads, devices, slots)
		copies := make([]float64, experts)
		for _, list := range places {
			if len(list) != slots || len(slices.Compact(slices.Clone(list))) != slots {
				t.Fatalf("seed %d: %d slots have %v", seed, slots, list)
			}
			for _, e := range list {
				copies[e]++
			}
		}
		if slices.Min(copies) < 1 {
			t.Fatalf("seed %d: an expert is on no device: %v", seed, places)
		}
		worst, inOrder, sum := 0.0, 0.0, 0.0
		for d, list := range places {
			load, plain := 0.0, 0.0
			for _, e := range list {
				load += float64(loads[e]) / copies[e]
			}
			for _, x := range loads[d*share : (d+1)*share] {
				plain += float64(x)
			}
			worst, inOrder, sum = max(worst, load), max(inOrder, plain), sum+plain
		}
		if slots == experts && worst > sum/float64(devices)*1.0001 {
			t.Errorf("seed %d: all experts are everywhere, and a device has %g of %g", seed, worst, sum)
		}
		if worst > inOrder*1.2 {
			t.Errorf("seed %d: %d devices of %d slots: the one with most load has %g, and in order %g", seed, devices, slots, worst, inOrder)
		}
		if devices > 1 && share > 1 {
			placed, ordered = placed+worst, ordered+inOrder
		}
	}
	if placed > 0.8*ordered {
		t.Errorf("the devices with most load have %g together, and in order %g", placed, ordered)
	}
}
