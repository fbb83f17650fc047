package cuda

import (
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu"
	"github.com/ridge-llm/ridge/backend/cuda/ptx"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// TestWrite: rows that the host has written are read back, rounded to the value's type, also where several copies are under way.
func TestWrite(t *testing.T) {
	d, err := New(Options{})
	if err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	defer d.Close()
	for _, typ := range []graph.Type{graph.F32, graph.BF16} {
		for _, n := range []int{1, 3, 700} { // more than one part, and larger than before
			v := &graph.Value{Name: "rows", Axis: graph.Axis{Name: "hidden", Count: 96, Size: 1}, Type: typ}
			var buffers []backend.Buffer
			var rows [3][]float32
			for i := range rows {
				b, err := d.Alloc(int64(n)*v.RowBytes(), "rows")
				if err != nil {
					t.Fatal(err)
				}
				defer d.Free(b)
				buffers = append(buffers, b)
				for k := range n * 96 {
					rows[i] = append(rows[i], math.Float32frombits(math.Float32bits(float32(k*(i+1))/7)&^0xffff)) // a BF16
				}
				if err := d.Write(v, b, rows[i], n); err != nil {
					t.Fatal(err)
				}
			}
			for i := range rows {
				got := make([]float32, n*96)
				if err := d.Read(got, v, buffers[i], 0, n); err != nil || !slices.Equal(got, rows[i]) {
					t.Errorf("%s: value %d of %d rows is not what was written (%v)", typ, i, n, err)
				}
			}
			if err := d.Write(v, buffers[0], rows[0], n+1); err == nil || !strings.Contains(err.Error(), "rows of rows") {
				t.Errorf("more rows than there is room for: %v", err)
			}
		}
	}
}

// TestExpertsOnHost: the GPU's launches end where rows go to experts on the CPU and go on behind what these make, layer by layer, also in a step that wants no logits.
func TestExpertsOnHost(t *testing.T) {
	if _, err := Devices(); err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	b, err := modeldir.Open("../../internal/check/testdata/mixtral-window")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	steps := testkit.Steps{{5, 1}, {1, 1}, {1, 1}}
	lim := testkit.LimitsFor(steps, 16)
	members := cpuAndGPU(t, b)
	lim.KeepAll(members[0].Graph)
	group, err := compile.CompileMembers(pass.WithoutExperts(2, 2, 2), members, b, lim)
	if errors.Is(err, ptx.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip("the source of a kernel is newer than the PTX; make ptx rebuilds that")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	if text := group.String(); strings.Count(text, "host Send") != 7 || strings.Count(text, "host Recv") != 7 { // the embedding; of each layer rows, scores and results
		t.Errorf("what goes to the experts and back is not that:\n%s", text)
	}
	if m := group.Memories(); m[0].Caches != 0 || m[1].Caches == 0 {
		t.Errorf("the cache is not the GPU's alone: %+v", m)
	}
	logits := make([]float32, 2*group.Vocab())
	for i, batch := range testkit.Sequence(steps, lim, group.Ids(), false, 1) {
		if i == 1 {
			batch.LogitsIndices = nil
		}
		if err := group.Run(batch); err != nil {
			t.Fatal(err)
		}
		if err := group.Logits(logits, 0, len(batch.LogitsIndices)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestExpertCacheOnHost: with slots for experts the GPU's launches go on behind the shares of what is in them.
func TestExpertCacheOnHost(t *testing.T) {
	if _, err := Devices(); err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	for _, name := range []string{"mixtral-window", "gptoss-yarn"} { // the second has biases
		b, err := modeldir.Open("../../internal/check/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		steps := testkit.Steps{{5, 1}, {1, 1}, {1, 1}}
		lim := testkit.LimitsFor(steps, 16)
		members := cpuAndGPU(t, b)
		lim.KeepAll(members[0].Graph)
		l := pass.WithoutExperts(2, 2, 2)
		l.ExpertSlots = 2
		group, err := compile.CompileMembers(l, members, b, lim)
		if errors.Is(err, ptx.ErrMissing) && os.Getenv("CI") != "true" {
			t.Skip("the source of a kernel is newer than the PTX; make ptx rebuilds that")
		}
		if err != nil {
			t.Fatal(err)
		}
		defer group.Close()
		if text := group.String(); strings.Count(text, "host CacheShares") != 2 || strings.Count(text, "host Send") != 9 || strings.Count(text, "host Recv") != 9 {
			t.Errorf("of each layer rows, shares, those of slots and results are to go to and fro:\n%s", text)
		}
		logits := make([]float32, 2*group.Vocab())
		for _, batch := range testkit.Sequence(steps, lim, group.Ids(), false, 1) {
			if err := group.Run(batch); err != nil {
				t.Fatal(err)
			}
			if err := group.Logits(logits, 0, len(batch.LogitsIndices)); err != nil {
				t.Fatal(err)
			}
		}
		if c := group.ExpertCaching(); c.Slots != 4 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// cpuAndGPU are members of a group of a model's.
func cpuAndGPU(t *testing.T, b *modeldir.Dir) (members []compile.Member) {
	t.Helper()
	gpu, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gpu.Close() })
	host, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	for _, d := range []backend.Device{host, gpu} {
		info := d.Info()
		g, err := b.Model.Graph(model.Options{Act: info.Act, Cache: graph.F16})
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, compile.Member{Device: d, Graph: g, Passes: pass.Options{Q8: info.Q8, BF16: info.BF16, Kernels: compile.Kernels{Device: d}}})
	}
	return members
}

// TestMixedGroup: a stage on a CPU and one on a GPU, in either order, exchange rows through the host. A step that fails on one ends what the other waits for, and the next is computed.
func TestMixedGroup(t *testing.T) {
	if _, err := Devices(); err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	b, err := modeldir.Open("../../internal/check/testdata/llama-default")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	steps := testkit.Steps{{5, 1}, {1, 1}, {1, 1}}
	lim := testkit.LimitsFor(steps, 16)
	for _, last := range []string{"cuda", "cpu"} {
		members := cpuAndGPU(t, b)
		if last == "cpu" {
			slices.Reverse(members)
		}
		lim.KeepAll(members[0].Graph)
		group, err := compile.CompileMembers(pass.Split(2, 1), members, b, lim)
		if errors.Is(err, ptx.ErrMissing) && os.Getenv("CI") != "true" {
			t.Skip("the source of a kernel is newer than the PTX; make ptx rebuilds that")
		}
		if err != nil {
			t.Fatal(err)
		}
		if text := group.String(); strings.Count(text, "host Send") != 1 || strings.Count(text, "host Recv") != 1 {
			t.Errorf("%s last: the host does not move what the devices exchange:\n%s", last, text)
		}
		if group.CanSample() != (last == "cuda") || group.RunsAhead() || group.Stages() != 1 {
			t.Errorf("%s last: samples %t, runs ahead %t, %d steps in flight; one step in flight is right, and the first stage does not know what the last one samples", last, group.CanSample(), group.RunsAhead(), group.Stages())
		}
		logits := make([]float32, 2*group.Vocab())
		batches := testkit.Sequence(steps, lim, group.Ids(), false, 1)
		wrong := testkit.Sequence(steps, lim, group.Ids(), false, 2)[0]
		wrong.Embeddings, wrong.EmbeddingRows = make([]float32, 1), []int32{0} // not a row: its launch is an error
		if last == "cpu" {
			if err := group.Run(wrong); err == nil {
				t.Error("a step that cannot be launched is none")
			}
		}
		samples := []sampling.Sample{{TopP: 1, TypicalP: 1, Future: -1}}
		for _, batch := range batches {
			if err := group.Begin(batch, false); err != nil {
				t.Fatal(err)
			}
			if !group.CanSample() {
				continue
			}
			if err := group.Sample(samples); err != nil {
				t.Fatal(err)
			}
		}
		for _, batch := range batches {
			if err := group.End(); err != nil {
				t.Fatal(err)
			}
			if err := group.Logits(logits, 0, len(batch.LogitsIndices)); err != nil {
				t.Fatal(err)
			}
			if !group.CanSample() {
				continue
			}
			if _, err := group.SampleResults(make([]sampling.Result, 1)); err != nil {
				t.Fatal(err)
			}
		}
		group.Close()
	}
}
