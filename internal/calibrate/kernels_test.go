package calibrate

import (
	"testing"

	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/graph"
)

// TestProductsOfEveryFormat: the products that calibration times have inputs that their kernels take, in every format that there is.
func TestProductsOfEveryFormat(t *testing.T) {
	dev, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	samples, err := productsOf(t.Context(), dev, 64, 256, []int{1, 4}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(samples) == 0 {
		t.Error("no product was timed")
	}
}

// TestAdaptersHaveCoefficients: LoRA is timed, and its fit prices what was timed better than the fit of other ops does.
func TestAdaptersHaveCoefficients(t *testing.T) {
	dev, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	samples, err := adapters(t.Context(), dev, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(samples) < 4*7 {
		t.Fatalf("%d nodes were timed", len(samples))
	}
	for _, s := range samples {
		if _, ok := s.Node.Op.(graph.LoRA); !ok || s.Seconds <= 0 || len(s.Step.Adapters) == 0 {
			t.Errorf("%s took %g s in a step with %d adapters", s.Node, s.Seconds, len(s.Step.Adapters))
		}
	}
	p := Nominal(dev)
	if p.Fit, err = p.FitSamples(samples); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.Fit.Rows[graph.LoRA{}.Name()]; !ok {
		t.Errorf("the fit has coefficients of %v and none of LoRA", p.Fit.Rows)
	}
}
