package check

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/weights/adapter"
)

var adapterDir = filepath.Join(shared, "reference/adapters")

// adapters are the reference adapters, over the model in base.
var adapters = []string{"r8-attn", "r16-all-rslora", "r4-all-dora", "patterns", "layers", "head-saved", "embed", "bias"}

func TestAdapters(t *testing.T) {
	if _, err := os.Stat(adapterDir); err != nil {
		t.Skip("the reference adapters in ../shared are not here")
	}
	for name, open := range devices {
		for _, a := range adapters {
			t.Run(name+"/"+a, func(t *testing.T) {
				dev := open()
				defer dev.Close()
				dir := filepath.Join(adapterDir, a)
				for _, chunk := range []int{0, 7} {
					res, err := Adapter(dir, "", dir, Options{Devices: []backend.Device{dev}, Cache: graph.F32, Chunk: chunk})
					if err != nil {
						t.Fatal(err)
					}
					if !res.OK {
						t.Errorf("%+v", *res)
					}
				}
			})
		}
	}
}

// TestMixedAdapters computes the prompts of all adapters and of the base in one batch: each row is what upstream has for its adapter alone.
func TestMixedAdapters(t *testing.T) {
	if _, err := os.Stat(adapterDir); err != nil {
		t.Skip("the reference adapters in ../shared are not here")
	}
	b, err := modeldir.Open(filepath.Join(adapterDir, "base"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	all, err := readGolden(filepath.Join(adapterDir, "base"))
	if err != nil {
		t.Fatal(err)
	}
	slots := make([]int, len(all.cases))
	for i := range slots {
		slots[i] = -1
	}
	var list []*adapter.Adapter
	for i, name := range adapters {
		a, err := adapter.Open(filepath.Join(adapterDir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		g, err := readGolden(filepath.Join(adapterDir, name))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, a)
		for _, c := range g.cases {
			// Between the others, so that the rows of an adapter do not lie together.
			at := (len(all.cases)*7 + i) % (len(all.cases) + 1)
			all.cases, slots = slices.Insert(all.cases, at, c), slices.Insert(slots, at, i)
		}
	}
	for name, open := range devices {
		t.Run(name, func(t *testing.T) {
			dev := open()
			defer dev.Close()
			for _, chunk := range []int{0, 5} {
				o := Options{Devices: []backend.Device{dev}, Cache: graph.F32, Chunk: chunk}
				prog, err := withAdapters(b, limits(all), o, list)
				if err != nil {
					t.Fatal(err)
				}
				res, err := compareProgram(prog, all, o, false, slots)
				prog.Close()
				if err != nil {
					t.Fatal(err)
				}
				if !res.OK {
					t.Errorf("%+v", *res)
				}
			}
		})
	}
}

// TestAdaptersInParts divides the model over devices, and the adapters with it.
func TestAdaptersInParts(t *testing.T) {
	if _, err := os.Stat(adapterDir); err != nil {
		t.Skip("the reference adapters in ../shared are not here")
	}
	for _, name := range adapters {
		if name == "embed" { // a table that is divided
			continue
		}
		for _, l := range []pass.Layout{{Data: 1, Tensor: 2, Pipeline: 2, Expert: 1}, {Data: 1, Tensor: 2, Pipeline: 1, Sequence: 2}, {Data: 1, Tensor: 1, Pipeline: 1, Sequence: 3, Method: pass.Ring}} {
			t.Run(name+"/"+l.String(), func(t *testing.T) {
				var devs []backend.Device
				for range l.Devices() {
					dev := devices["ref"]()
					defer dev.Close()
					devs = append(devs, dev)
				}
				dir := filepath.Join(adapterDir, name)
				res, err := Adapter(dir, "", dir, Options{Devices: devs, Layout: l, Cache: graph.F32})
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
