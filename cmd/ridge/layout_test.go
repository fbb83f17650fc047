package main

import (
	"io"
	"strings"
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

// TestBenchPlacesExperts: what is measured has its experts placed as what serves has.
func TestBenchPlacesExperts(t *testing.T) {
	r := root()
	r.SetArgs([]string{"bench", "-m", "../../internal/check/testdata/gptoss-yarn", "--sp", "2", "--ep", "2", "--redundant-experts", "100", "-t", "1", "-p", "4", "-n", "0", "-r", "1"})
	r.SetOut(io.Discard)
	r.SetErr(io.Discard)
	if err := r.Execute(); err == nil || !strings.Contains(err.Error(), "more than there are") {
		t.Errorf("with more experts on each device than there are: %v", err)
	}
}
