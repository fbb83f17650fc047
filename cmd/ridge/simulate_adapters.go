package main

import (
	"cmp"
	"fmt"

	"github.com/ridge-llm/ridge/pass"
)

// defaultSlots is how many adapters are on the device at once unless --max-loras says, as for ridge serve.
const defaultSlots = 64

// adapters is the room that the device has for them.
func (f *simulateFlags) adapters() (a pass.Adapters, err error) {
	n := f.options.Adapters.Count
	switch {
	case n < 0 || f.slots < 0:
		return a, fmt.Errorf("--loras is %d and --max-loras %d; 0 or more is possible", n, f.slots)
	case n == 0 && f.slots > 0:
		return a, fmt.Errorf("--max-loras is %d, and the requests have no adapters; say how many they have in turn (--loras)", f.slots)
	case n == 0:
		return a, nil
	}
	a = pass.Adapters{Slots: cmp.Or(f.slots, min(n, defaultSlots)), Rank: f.options.Adapters.Rank}
	if err := pass.CheckAdapters(a); err != nil {
		return a, fmt.Errorf("--loras, --max-loras and --rank: %w", err)
	}
	return a, nil
}
