package check

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/convert"
)

// TestMergedAdapters merges each reference adapter into its base, as a folder and as GGUF, and compares with upstream's base and adapter.
func TestMergedAdapters(t *testing.T) {
	if _, err := os.Stat(adapterDir); err != nil {
		t.Skip("the reference adapters in ../shared are not here")
	}
	f32, err := convert.ParseType("F32")
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(adapterDir, "base")
	for _, name := range adapters {
		t.Run(name, func(t *testing.T) {
			golden, list := filepath.Join(adapterDir, name), []convert.Merged{{Path: filepath.Join(adapterDir, name), Scale: 1}}
			file := filepath.Join(t.TempDir(), "merged.gguf")
			_, err := convert.Merge(context.Background(), base, list, file, convert.Options{Type: f32})
			if name == "bias" {
				if err == nil || !strings.Contains(err.Error(), "adds a bias") {
					t.Fatalf("a bias for a matrix without one: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			dev := devices["cpu"]()
			defer dev.Close()
			o := Options{Devices: []backend.Device{dev}, Cache: graph.F32}
			if res, err := Model(file, golden, o); err != nil || !res.OK {
				t.Errorf("GGUF: %+v, %v", res, err)
			}
			folder := filepath.Join(t.TempDir(), "merged")
			if _, err := convert.Merge(context.Background(), base, list, folder, convert.Options{}); err != nil {
				t.Fatal(err)
			}
			// The base is in bf16, to which sums are rounded.
			if res, err := Model(folder, golden, o); err != nil || res.WorstError > 0.05 {
				t.Errorf("folder: %+v, %v", res, err)
			}
		})
	}
}

// TestConvertedAdapters writes each reference adapter that has products alone as GGUF, and from that as a folder of PEFT again.
func TestConvertedAdapters(t *testing.T) {
	if _, err := os.Stat(adapterDir); err != nil {
		t.Skip("the reference adapters in ../shared are not here")
	}
	base := filepath.Join(adapterDir, "base")
	for _, name := range adapters {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			golden, file, folder := filepath.Join(adapterDir, name), filepath.Join(dir, "a.gguf"), filepath.Join(dir, "peft")
			_, err := convert.Adapter(golden, base, file)
			switch name {
			case "r4-all-dora", "head-saved", "bias":
				if err == nil || !strings.Contains(err.Error(), "more than a product") {
					t.Fatalf("what GGUF cannot hold: %v", err)
				}
				return
			}
			if err == nil {
				_, err = convert.Adapter(file, base, folder)
			}
			if err != nil {
				t.Fatal(err)
			}
			dev := devices["cpu"]()
			defer dev.Close()
			for _, path := range []string{file, folder} {
				res, err := Adapter(path, base, golden, Options{Devices: []backend.Device{dev}, Cache: graph.F32})
				if err != nil || !res.OK {
					t.Errorf("%s: %+v, %v", path, res, err)
				}
			}
		})
	}
}
