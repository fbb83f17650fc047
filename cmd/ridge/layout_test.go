package main

import (
	"testing"

	"github.com/ridge-llm/ridge"
	"github.com/ridge-llm/ridge/pass"
)

// TestPassLayout: 0 devices in a direction are one, for what checks, measures and simulates as for what serves.
func TestPassLayout(t *testing.T) {
	got := passLayout(ridge.Layout{Data: 2})
	if want := (pass.Layout{Tensor: 1, Pipeline: 1, Data: 2, Expert: 2}); got.String() != want.String() || got.Devices() != 2 {
		t.Errorf("the layout is %s, of %d devices; %s is right", got, got.Devices(), want)
	}
}
