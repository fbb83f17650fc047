package check

import (
	"path/filepath"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// TestSplits: models whose first layers are on one backend and whose last ones are on another compute what upstream does, wherever they are cut.
func TestSplits(t *testing.T) {
	ran := 0
	for _, dir := range splitModels(t, 2) {
		for last := 1; last < layersOf(t, dir); last++ {
			name := []string{"cpu", "ref"}
			if ran++; ran%2 == 0 {
				name = []string{"ref", "cpu"}
			}
			t.Run(filepath.Base(dir)+"/"+pass.Split(layersOf(t, dir), last).String()+"/"+name[0], func(t *testing.T) {
				o := Options{Last: last, Cache: graph.F32}
				for _, n := range name {
					d := layoutDevices[n]()
					defer d.Close()
					o.Devices = append(o.Devices, d)
				}
				compareSplit(t, dir, o)
			})
		}
	}
	if ran < 40 {
		t.Errorf("models were cut in %d ways", ran)
	}
}

// TestExpertsApart: models whose experts, or those of the first layers, are on another backend than the rest of their layers compute what upstream does.
func TestExpertsApart(t *testing.T) {
	ran := 0
	for _, dir := range splitModels(t, 1) {
		for _, l := range expertsApart(t, dir) {
			name := []string{"cpu", "ref"}
			if ran++; ran%2 == 0 && l.ExpertSlots == 0 { // a CPU has no slots
				name = []string{"ref", "cpu"}
			}
			t.Run(filepath.Base(dir)+"/"+l.String()+"/"+name[0], func(t *testing.T) {
				o := Options{Last: l.Layers[1], Experts: l.EarlyExperts, Slots: l.ExpertSlots, Cache: graph.F32}
				for _, n := range name {
					d := layoutDevices[n]()
					defer d.Close()
					o.Devices = append(o.Devices, d)
				}
				compareSplit(t, dir, o)
			})
		}
	}
	if ran < 12 {
		t.Errorf("experts were apart in %d ways", ran)
	}
}

// TestExpertsApartOnGPU: the same of a CPU and a GPU.
func TestExpertsApartOnGPU(t *testing.T) {
	for _, dir := range splitModels(t, 1) {
		for _, l := range expertsApart(t, dir) {
			t.Run(filepath.Base(dir)+"/"+l.String(), func(t *testing.T) {
				first := layoutDevices["cpu"]()
				defer first.Close()
				compareSplit(t, dir, Options{Last: l.Layers[1], Experts: l.EarlyExperts, Slots: l.ExpertSlots, Cache: graph.F32, Devices: []backend.Device{first, gpuPair(t)[0]}})
			})
		}
	}
}

// expertsApart are the ways to have a model's experts apart: all, those of all but the last layer, and all with the first layer on the first device too.
func expertsApart(t *testing.T, dir string) (all []pass.Layout) {
	t.Helper()
	b, err := modeldir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
	if err != nil {
		t.Fatal(err)
	}
	n := g.Layers()
	for _, l := range []pass.Layout{pass.WithoutExperts(n, n, n), pass.WithoutExperts(n, n, n-1), pass.WithoutExperts(n, n-1, n)} {
		if l.Check(g) == nil && l.EarlyExperts > 0 {
			all = append(all, l)
			l.ExpertSlots = 3
			all = append(all, l)
		}
	}
	return all
}

// TestSplitsOnGPU: the same of a CPU and a GPU.
func TestSplitsOnGPU(t *testing.T) {
	for _, dir := range splitModels(t, 2) {
		for last := 1; last < layersOf(t, dir); last++ {
			t.Run(filepath.Base(dir)+"/"+pass.Split(layersOf(t, dir), last).String(), func(t *testing.T) {
				first := layoutDevices["cpu"]()
				defer first.Close()
				compareSplit(t, dir, Options{Last: last, Cache: graph.F32, Devices: []backend.Device{first, gpuPair(t)[0]}})
			})
		}
	}
}

// splitModels are the small models and, unless tests are to be short, the reference architectures, of so many layers at least.
func splitModels(t *testing.T, layers int) (dirs []string) {
	files, err := filepath.Glob("testdata/*/config.json")
	if err != nil || len(files) < 20 {
		t.Fatalf("the small models are missing: %v, %v", files, err)
	}
	if more, err := filepath.Glob(filepath.Join(shared, "reference/architectures/*/config.json")); err == nil && !testing.Short() {
		files = append(files, more...)
	}
	for _, f := range files {
		if layersOf(t, filepath.Dir(f)) >= layers {
			dirs = append(dirs, filepath.Dir(f))
		}
	}
	return dirs
}

// layersOf is how many layers a model has; 0 of an architecture that is not there yet.
func layersOf(t *testing.T, dir string) int {
	t.Helper()
	b, err := modeldir.Open(dir)
	if err != nil {
		return 0
	}
	defer b.Close()
	g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
	if err != nil {
		return 0
	}
	return g.Layers()
}

func compareSplit(t *testing.T, dir string, o Options) {
	t.Helper()
	res, err := Model(dir, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if !res.OK {
		t.Errorf("%+v", *res)
	}
}
