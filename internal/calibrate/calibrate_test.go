package calibrate_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/calibrate"
	"github.com/ridge-llm/ridge/price"
)

// TestCache: a profile comes back from the cache, and one that is broken, old or another machine's is not taken.
func TestCache(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	dev, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if p, err := calibrate.Cached(dev); p != nil || err != nil {
		t.Fatalf("an empty cache has %v, %v", p, err)
	}
	p := calibrate.Nominal(dev)
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	p.Fit = price.Typical(p)
	if err := calibrate.Save(dev, p); err != nil {
		t.Fatal(err)
	}
	said := func(string) { t.Error("a profile that is there is measured again") }
	back, err := calibrate.Profile(t.Context(), dev, said)
	if err != nil || back.FLOPs[price.F32] != p.FLOPs[price.F32] {
		t.Errorf("%+v came back as %+v, %v", p, back, err)
	}
	path, err := calibrate.Path(dev)
	if err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for text, broken := range map[string]string{
		"is not a profile": string(good[:len(good)/2]),
		"version":          strings.Replace(string(good), `"version": 6`, `"version": 0`, 1),
		"was measured":     strings.Replace(string(good), `"device": "`, `"device": "another `, 1),
		"has no profile":   strings.Replace(string(good), `"profile":`, `"other":`, 1),
		"levels[0]":        strings.Replace(string(good), `"name": "memory"`, `"name": ""`, 1),
	} {
		if err := os.WriteFile(path, []byte(broken), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := calibrate.Cached(dev); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("a cache that should say %q: %v", text, err)
		}
	}
}

// TestCannotMeasure: a device without a clock is refused with its name.
func TestCannotMeasure(t *testing.T) {
	if _, _, err := calibrate.Measure(t.Context(), ref.New(), func(string) {}); err == nil || !strings.Contains(err.Error(), "ref") {
		t.Errorf("the reference was measured: %v", err)
	}
}

// stated is a device that states peaks.
type stated struct{ backend.Device }

func (stated) Info() backend.Info {
	return backend.Info{Name: "cuda:0", Memory: 141 << 30, Threads: 1, Act: graph.BF16, Replays: true, RowTiles: []int{1, 8}, Stated: backend.Peaks{Read: 4.8e12, BF16: 989e12, F32: 67e12}}
}

// TestNominalStated: what a GPU states of itself is its first profile.
func TestNominalStated(t *testing.T) {
	p := calibrate.Nominal(stated{})
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	if !p.Replays || len(p.RowTiles) != 2 || p.Memory().Rate != 4.8e12 || p.FLOPs[price.BF16] != 989e12 {
		t.Errorf("the profile is %+v", p)
	}
}

// TestMeasureStops: whoever waits for a measurement can leave it, in the middle of a part too.
func TestMeasureStops(t *testing.T) {
	dev, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	ctx, stop := context.WithCancel(t.Context())
	var last string
	var stopped time.Time
	_, _, err = calibrate.Measure(ctx, dev, func(part string) {
		if last = part; part == "products" {
			time.AfterFunc(10*time.Millisecond, func() { stopped = time.Now(); stop() })
		}
	})
	if !errors.Is(err, context.Canceled) || last != "products" {
		t.Errorf("%v, in %q", err, last)
	}
	if took := time.Since(stopped); took > 20*time.Second { // the machine may be busy; all of it takes longer
		t.Errorf("it went on for %v", took)
	}
}
