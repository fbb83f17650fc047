package main

import (
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/bench/throughput"
)

// TestBenchText: peaks that a device has not are left out, and a fraction above the limit is explained.
func TestBenchText(t *testing.T) {
	const note = "above 100 %: a model this small"
	r := benchReport{Model: "m", Device: "cpu", Peaks: backend.Peaks{F32: 2e9, Read: 3e9}}
	for _, fraction := range []float64{0.9, 1.1} {
		var out strings.Builder
		r.Rows = []throughput.Row{{Test: throughput.Test{Decode: 8, Batch: 1}, Median: fraction, Limit: 1, Fraction: fraction}}
		if err := r.print(&out); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); !strings.HasPrefix(text, "m on cpu; at most 2 GFLOP/s f32, 3.0 GB/s read\n") || strings.Contains(text, note) != (fraction > 1) {
			t.Errorf("with a fraction of %g:\n%s", fraction, text)
		}
	}
}
