package check

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/cuda"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// layoutDevices are opened several at a time: a CPU device of one thread each, since pools of more than there are processors wait for each other.
var layoutDevices = map[string]func() backend.Device{
	"ref": devices["ref"],
	"cpu": func() backend.Device {
		dev, err := cpu.New(cpu.Options{Threads: 1})
		if err != nil {
			panic(err)
		}
		return dev
	},
}

var everyLayout = flag.Bool("layouts", false, "TestLayouts: every layout of {tp 1, 2, 4} × {pp 1, 2, 4} × {sp 1, 2, 4} × {ep 1, 2, 4, tp × sp}, of up to 16 devices, and why models do not have one")

// TestLayouts: models compute the same over several devices as upstream does on one, in every layout that divides them.
func TestLayouts(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*/config.json")
	if err != nil || len(dirs) < 20 {
		t.Fatalf("the small models are missing: %v, %v", dirs, err)
	}
	if more, err := filepath.Glob(filepath.Join(shared, "reference/architectures/*/config.json")); err == nil && !testing.Short() {
		dirs = append(dirs, more...)
	}
	layouts := []pass.Layout{
		{Tensor: 2, Pipeline: 1, Data: 1}, {Tensor: 1, Pipeline: 2, Data: 1}, {Tensor: 2, Pipeline: 1, Data: 1, Expert: 2},
		{Tensor: 1, Pipeline: 1, Data: 1, Sequence: 2, Method: pass.Ring}, {Tensor: 1, Pipeline: 1, Data: 1, Sequence: 2, Method: pass.Ulysses},
		{Tensor: 2, Pipeline: 2, Data: 1, Expert: 4, Sequence: 2, Method: pass.Ring}, {Tensor: 2, Pipeline: 1, Data: 1, Sequence: 2, Method: pass.Ring},
		{Tensor: 1, Pipeline: 2, Data: 1, Sequence: 4, Method: pass.Ring}, {Tensor: 2, Pipeline: 1, Data: 1, Expert: 2, Sequence: 2, Method: pass.Ulysses},
		{Tensor: 4, Pipeline: 1, Data: 1}, {Tensor: 4, Pipeline: 1, Data: 1, Expert: 2}, {Tensor: 2, Pipeline: 2, Data: 1, Expert: 2}, {Tensor: 2, Pipeline: 2, Data: 1},
	}
	switch {
	case *everyLayout:
		layouts = allLayouts()
	case testing.Short():
		layouts = layouts[:6]
	}
	ran := map[string]int{}
	for i, file := range dirs {
		dir := filepath.Dir(file)
		b, err := modeldir.Open(dir)
		if err != nil {
			continue // an architecture that is not there yet
		}
		g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
		b.Close()
		if err != nil {
			continue
		}
		for j, l := range layouts {
			if !*everyLayout && (i+j)%3 != 0 {
				continue // a third of the pairs: every model in some layouts, every layout with some models
			}
			if err := l.Check(g); err != nil {
				if *everyLayout {
					t.Logf("%s %s: %v", filepath.Base(dir), l, err)
				}
				continue
			}
			ran[l.String()]++
			for name := range layoutDevices {
				if !*everyLayout && name == "ref" && (i+j)%2 != 0 {
					continue
				}
				t.Run(filepath.Base(dir)+"/"+l.String()+"/"+name, func(t *testing.T) { compareLayout(t, dir, name, l) })
			}
		}
	}
	for _, l := range layouts {
		if ran[l.String()] == 0 {
			t.Errorf("no model ran in the layout %s", l)
		}
	}
	t.Logf("models that ran: %v", ran)
}

// allLayouts is every layout of up to 16 devices.
func allLayouts() (all []pass.Layout) {
	for _, tensor := range []int{1, 2, 4} {
		for _, pipeline := range []int{1, 2, 4} {
			for expert := 1; expert <= tensor; expert *= 2 {
				if tensor*pipeline > 1 {
					all = append(all, pass.Layout{Tensor: tensor, Pipeline: pipeline, Data: 1, Expert: expert})
				}
			}
			for _, method := range []string{pass.Ring, pass.Ulysses} {
				for sequence := 2; sequence <= 4 && tensor*pipeline*sequence <= 16; sequence *= 2 {
					l := pass.Layout{Tensor: tensor, Pipeline: pipeline, Data: 1, Sequence: sequence, Method: method}
					all = append(all, l)
					l.Expert = tensor * sequence
					all = append(all, l)
				}
			}
		}
	}
	return all
}

// compareLayout fails the test when the devices of a layout disagree with upstream about the model in dir.
func compareLayout(t *testing.T, dir, device string, l pass.Layout) {
	t.Helper()
	comparePlaced(t, dir, device, l, pass.ExpertLoads{})
}

// comparePlaced is compareLayout with experts placed by load.
func comparePlaced(t *testing.T, dir, device string, l pass.Layout, loads pass.ExpertLoads) {
	t.Helper()
	o := Options{Layout: l, Loads: loads, Cache: graph.F32}
	for range l.Devices() {
		d := layoutDevices[device]()
		defer d.Close()
		o.Devices = append(o.Devices, d)
	}
	res, err := Model(dir, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if !res.OK {
		t.Errorf("%+v", *res)
	}
}

// gpuPair are two devices: two GPUs, or one that two ranks share.
func gpuPair(t *testing.T) []backend.Device {
	t.Helper()
	all, err := cuda.Devices()
	if err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	var pair []backend.Device
	for i := range 2 {
		d, err := cuda.New(cuda.Options{Ordinal: i % len(all)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		pair = append(pair, d)
	}
	return pair
}

// refusedOnGPUs are models that a layout divides and GPUs do not compute then, with what is said of them.
var refusedOnGPUs = map[string]string{
	"nemotron": "experts have the function relu",
}

// TestLayoutsOnGPUs: two GPUs, or two ranks on one, compute what upstream does, and exchange what they need by themselves.
func TestLayoutsOnGPUs(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*/config.json")
	if err != nil || len(dirs) < 20 {
		t.Fatalf("the small models are missing: %v, %v", dirs, err)
	}
	if more, err := filepath.Glob(filepath.Join(shared, "reference/architectures/*/config.json")); err == nil {
		dirs = append(dirs, more...)
	}
	for _, file := range dirs {
		dir := filepath.Dir(file)
		b, err := modeldir.Open(dir)
		if err != nil {
			continue // an architecture that is not there yet
		}
		g, err := b.Model.Graph(model.Options{Act: graph.F32, Cache: graph.F32})
		b.Close()
		if err != nil {
			continue
		}
		for _, l := range []pass.Layout{{Tensor: 2, Pipeline: 1, Data: 1}, {Tensor: 1, Pipeline: 2, Data: 1}, {Tensor: 2, Pipeline: 1, Data: 1, Expert: 2},
			{Tensor: 1, Pipeline: 1, Data: 1, Sequence: 2, Method: pass.Ulysses}, {Tensor: 1, Pipeline: 1, Data: 2, Expert: 2}, {Tensor: 1, Pipeline: 1, Data: 1, Sequence: 2, Expert: 2, Method: pass.Ulysses},
			{Tensor: 1, Pipeline: 1, Data: 1, Sequence: 2, Method: pass.Ring}} {
			if l.Check(g) != nil {
				continue
			}
			t.Run(filepath.Base(dir)+"/"+l.String(), func(t *testing.T) {
				res, err := Model(dir, dir, Options{Layout: l, Cache: graph.F32, Devices: gpuPair(t)})
				for name, why := range refusedOnGPUs {
					if err != nil && strings.HasPrefix(filepath.Base(dir), name) && strings.Contains(err.Error(), why) {
						return
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				if !res.OK {
					t.Errorf("%+v", *res)
				}
			})
		}
	}
}

// TestLayoutUneven: 172 numbers of a feed-forward block among 8 devices, which 8 does not divide.
func TestLayoutUneven(t *testing.T) {
	dir := filepath.Join(shared, "models/stories260K/hf")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the model with an odd feed-forward block is not here: %v", err)
	}
	compareLayout(t, dir, "cpu", pass.Layout{Tensor: 8, Pipeline: 1, Data: 1})
}

// TestLayoutOfTooFewDevices: a sentence, and no panic.
func TestLayoutOfTooFewDevices(t *testing.T) {
	dir := "testdata/llama-default"
	o := Options{Layout: pass.Layout{Tensor: 4, Pipeline: 1, Data: 1}, Devices: []backend.Device{devices["ref"](), devices["ref"]()}, Cache: graph.F32}
	if _, err := Model(dir, dir, o); err == nil {
		t.Error("two devices run a layout of four")
	}
}

// TestLayoutOfBlocks: block formats, and activations quantised to Q8, are cut between blocks: several CPU devices compute what one does,
// except for the rounding of sums.
func TestLayoutOfBlocks(t *testing.T) {
	b, err := modeldir.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	prompt := make([]int32, 40)
	for i := range prompt {
		prompt[i] = int32(20 + 37*i)
	}
	one := devices["cpu"]()
	defer one.Close()
	g := &golden{cases: []goldenCase{{prompt: prompt}}}
	gr, err := b.Model.Graph(graphOptions(Options{Cache: graph.F32}))
	if err != nil {
		t.Fatal(err)
	}
	prog, err := (&Options{Devices: []backend.Device{one}}).program(gr, b, limits(g), false)
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	r := &runner{prog: prog, past: make([]int, 1)}
	logits, err := r.forward(map[int][]int32{0: prompt}, []int{0}, false)
	if err != nil {
		t.Fatal(err)
	}
	g.cases[0].logits = logits
	for _, l := range []pass.Layout{{Tensor: 2, Pipeline: 1, Data: 1}, {Tensor: 4, Pipeline: 1, Data: 1}, {Tensor: 2, Pipeline: 2, Data: 1}, {Tensor: 1, Pipeline: 3, Data: 1}} {
		o := Options{Layout: l, Cache: graph.F32}
		for range l.Devices() {
			d := devices["cpu"]()
			defer d.Close()
			o.Devices = append(o.Devices, d)
		}
		res, err := compareModel(b, g, o)
		if err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		// Until a sum's rounding flips an int8 activation the results are equal; from there on all rows are as far apart as the reference is
		// from one CPU, 0.036.
		if res.errors[0] > 1e-5 || res.WorstError > 0.04 || res.Rows != len(prompt) {
			t.Errorf("%s: %+v", l, *res)
		}
	}
}
