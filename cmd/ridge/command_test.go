package main

import (
	"testing"

	"github.com/ridge-llm/ridge"
)

// TestSet: a setting that cannot be is refused and leaves the old one.
func TestSet(t *testing.T) {
	m, err := ridge.Load("", ridge.Options{Context: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := &session{model: m, params: ridge.Greedy()}
	for _, line := range []string{"max-tokens 20", "seed 7", "top-k 0", "temperature 0.5"} {
		if err := s.set(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if p := s.params; p.MaxTokens != 20 || p.Sampling.Seed != 7 || p.Sampling.Temperature != 0.5 {
		t.Errorf("set to %+v", p)
	}
	before := s.params.MaxTokens
	for _, line := range []string{"max-tokens -5", "max-tokens 1.5", "seed -1", "seed 1e300", "top-k 1e30", "temperature -1", "temperature NaN", "top-p x", "size 3", ""} {
		if err := s.set(line); err == nil {
			t.Errorf("/set %s was taken", line)
		}
	}
	if s.params.MaxTokens != before || s.params.Sampling.Temperature != 0.5 {
		t.Errorf("what was refused is set: %+v", s.params)
	}
}
