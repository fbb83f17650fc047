package ridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/device"
	"github.com/ridge-llm/ridge/price/capacity"
)

// smallGPU is the reference device with so much memory, as fast as it says.
type smallGPU struct {
	*ref.Device
	memory int64
	peaks  backend.Peaks
}

// Info implements backend.Device.
func (g *smallGPU) Info() backend.Info {
	i := g.Device.Info()
	i.Stated = g.peaks
	return i
}

// Memory implements backend.MemoryInfo.
func (g *smallGPU) Memory() (free, total int64, err error) { return g.memory, g.memory, nil }

// withGPU are devices of which ref is a smallGPU.
type withGPU struct {
	*device.Shared
	gpu smallGPU
}

func (w *withGPU) Open(o device.Options) (backend.Device, error) {
	if o.Backend != "ref" {
		return w.Shared.Open(o)
	}
	g := w.gpu
	g.Device = ref.New()
	return &g, nil
}

// loadBeside loads the built-in model on a GPU of so much memory beside the CPU, and says what was noted.
func loadBeside(t *testing.T, memory int64, peaks backend.Peaks, o Options) (m *Model, notes string, err error) {
	t.Helper()
	return loadPathBeside(t, "", memory, peaks, o)
}

// loadPathBeside is loadBeside of a model.
func loadPathBeside(t *testing.T, path string, memory int64, peaks backend.Peaks, o Options) (m *Model, notes string, err error) {
	t.Helper()
	r, err := NewRuntime(RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	shared, ok := r.devices.(*device.Shared)
	if !ok {
		t.Fatal("the Runtime's devices are others")
	}
	r.devices = &withGPU{shared, smallGPU{memory: memory, peaks: peaks}}
	var noting sync.Mutex
	o.Backend = "ref"
	o.Note = func(text string) {
		noting.Lock()
		defer noting.Unlock()
		notes += text + "\n"
	}
	m, err = r.Load(path, o)
	t.Cleanup(func() {
		if m != nil {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		for name, bytes := range r.reserved {
			if bytes != 0 {
				t.Errorf("%d bytes of %s stay reserved", bytes, name)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, notes, err
}

// TestAutoGPULayers: as many layers are on the GPU as have room with their cache, by the sums of ridge plan: with a layer more they have none. A GPU that is slower than the CPU
// is given none.
func TestAutoGPULayers(t *testing.T) {
	fast := backend.Peaks{Int8: 1e15, FP8: 1e15, BF16: 1e15, F32: 1e14, Read: 4e12}
	layers, before := 0, -1
	for _, beside := range []int64{1 << 20, 8 << 20, 16 << 20, 24 << 20, 32 << 20, 1 << 30} {
		m, notes, err := loadBeside(t, kernelSlack+beside, fast, Options{GPULayers: AutoGPULayers, Context: 1024, Parallel: 1})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(notes, "--gpu-layers auto: ") {
			t.Errorf("what was chosen is not said: %q", notes)
		}
		last := 0
		switch {
		case m.split != nil:
			layers, last = m.split.layers, m.split.last
			p := backend.NewPaging(m.split.parts[1], &m.limits)
			p.Spread(m.split.parts[1:])
			use := capacity.MemoryOf(m.split.parts[1], m.limits.Tokens, m.limits.Logits)
			if need := use.Fixed() + p.Bytes(m.limits.SeqPages, 1); need > beside {
				t.Errorf("%d layers need %d bytes, and there are %d", last, need, beside)
			}
			more := Options{Backend: "ref", GPULayers: GPULayers(last + 1), Context: 1024, Parallel: 1}
			if _, err := m.gpuRoom(more, m.device, last+1, 1); err == nil {
				t.Errorf("there is room for one layer more than %d", last)
			}
			p2 := Greedy()
			p2.MaxTokens, p2.IgnoreEnd = 4, true
			for _, err := range m.Generate(context.Background(), "Once upon a time", p2) {
				if err != nil {
					t.Fatal(err)
				}
			}
		case m.device.Info().Name == "ref":
			last = 1 << 10
		}
		if last < before {
			t.Errorf("with more memory %d layers are on the GPU, and %d were before", last, before)
		}
		before = last
	}
	if layers == 0 || before != 1<<10 {
		t.Errorf("of %d layers %d were on the GPU at last: no memory was too small for all, or none was large enough", layers, before)
	}
	slow := backend.Peaks{Int8: 1e9, FP8: 1e9, BF16: 1e9, F32: 1e9, Read: 1e9}
	if m, notes, err := loadBeside(t, 1<<30, slow, Options{GPULayers: AutoGPULayers, Context: 1024}); err != nil || m.device.Info().Name != cpuName || !strings.Contains(notes, "all are on the CPU") {
		t.Errorf("a slow GPU is used: %v, %q", err, notes)
	}
}

// TestTooManyGPULayers: what has no room on the GPU is said with its numbers, and how many layers have; those are loaded.
func TestTooManyGPULayers(t *testing.T) {
	_, _, err := loadBeside(t, kernelSlack+8<<20, backend.Peaks{}, Options{GPULayers: 7, Context: 1024, Parallel: 1})
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "the last 7 of 8 layers take ") {
		t.Fatalf("7 layers in 8 MiB: %v", err)
	}
	found := false
	for _, a := range e.Alternatives {
		if n := a.Options.GPULayers; n < 7 && n > 0 {
			found = true
			if a.Flags != fmt.Sprintf("--gpu-layers %d", n) {
				t.Errorf("%d layers by %q", n, a.Flags)
			}
			if _, _, err := loadBeside(t, kernelSlack+8<<20, backend.Peaks{}, a.Options); err != nil {
				t.Errorf("what was proposed, %s, has no room: %v", a, err)
			}
		}
	}
	if !found {
		t.Errorf("no other number of layers is proposed: %v", err)
	}
}

// TestPricesOfParts: a step takes the sum of its parts, which learn by what it took.
func TestPricesOfParts(t *testing.T) {
	m, _, err := loadBeside(t, 1<<30, backend.Peaks{}, Options{GPULayers: 3, Context: 1024})
	if err != nil {
		t.Fatal(err)
	}
	all, err := m.split.prices()
	if err != nil {
		t.Fatal(err)
	}
	s := &graph.Step{Logits: 1, Seqs: []graph.Seq{{New: 1, Past: 100}}}
	if whole, sum := all.Predict(s), all[0].Predict(s)+all[1].Predict(s); whole != sum || all[0].Predict(s) <= 0 || all[1].Predict(s) <= 0 {
		t.Errorf("a step takes %g and its parts %g", whole, sum)
	}
	takes := 2 * all.Predict(s)
	for range 200 {
		all.Observe(s, takes)
	}
	if got := all.Predict(s); got < 0.9*takes || got > 1.1*takes || !all.Trusted() {
		t.Errorf("after steps of %g s one is predicted to take %g (trusted: %t)", takes, got, all.Trusted())
	}
	if predicted, actual := all.Last(); actual < 0.999*takes || actual > 1.001*takes || predicted <= 0 {
		t.Errorf("the last step took %g and was to take %g", actual, predicted)
	}
	by := all.Explain(s)
	sum := 0.0
	for _, seconds := range by {
		sum += seconds
	}
	if whole := all.Predict(s); sum < 0.99*whole || sum > 1.01*whole {
		t.Errorf("causes add up to %g of %g", sum, whole)
	}
}

// TestDraftModelFits: a draft model for whose weights a device has no room beside the model is refused with the sums, and nothing stays reserved.
func TestDraftModelFits(t *testing.T) {
	o := Options{Context: 256, Parallel: 1}
	alone, _, err := loadBeside(t, 1<<30, backend.Peaks{}, o)
	if err != nil {
		t.Fatal(err)
	}
	weights, cache, activations := alone.Memory()
	o.Speculation.Method, o.Speculation.Model = "draft_model", "internal/builtin/demo.gguf"
	tight := weights + cache + activations + weights/2
	if _, _, err := loadBeside(t, tight, backend.Peaks{}, o); err == nil || !strings.Contains(err.Error(), "its weights take") {
		t.Errorf("%d bytes for a model and a draft model that takes as much: %v", tight, err)
	}
	if _, _, err := loadBeside(t, 1<<30, backend.Peaks{}, o); err != nil {
		t.Error(err)
	}
}
