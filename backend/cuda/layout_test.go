package cuda

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/nccl"
	"github.com/ridge-llm/ridge/backend/cuda/ptx"
	"github.com/ridge-llm/ridge/backend/sampling"
	"github.com/ridge-llm/ridge/comm/local"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/modeldir"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
)

// TestLayoutsHaveKernels: every well-known model can be computed in parts on GPUs.
func TestLayoutsHaveKernels(t *testing.T) {
	ran := 0
	for _, name := range model.Shapes() {
		m, err := model.Shape(name)
		if err != nil {
			t.Fatal(err)
		}
		g, err := m.Graph(model.Options{Act: graph.BF16, Cache: graph.F16})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range []pass.Layout{{Tensor: 2, Pipeline: 1, Data: 1}, {Tensor: 1, Pipeline: 2, Data: 1}, {Tensor: 2, Pipeline: 1, Data: 1, Expert: 2}, {Tensor: 1, Pipeline: 1, Data: 2, Expert: 2}} {
			if l.Check(g) != nil {
				continue // it does not divide the model
			}
			d := table(90)
			rank := l.Rank(l.Devices() - 1)
			part, err := pass.Run(g, pass.All, pass.Options{Layout: l, Rank: rank, Kernels: compile.Kernels{Device: d}})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range part.Nodes {
				switch n.Op.(type) {
				case graph.AllReduce, graph.AllGather, graph.Send, graph.Recv, graph.GatherSelected, graph.Dispatch, graph.Combine:
					continue
				}
				if len(d.Kernels(n)) == 0 {
					t.Errorf("%s, %s: there is no kernel for %s: %s", name, rank, n, d.Refusal(n))
					break
				}
			}
			ran++
		}
	}
	if ran < 100 {
		t.Errorf("%d layouts of models were looked at", ran)
	}
}

// pair is two GPUs of the stand-in's, or of this machine: one that two ranks share, where there is no other.
func pair(t *testing.T, transport string) (devices []backend.Device) {
	t.Helper()
	all, err := Devices()
	if err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	for i := range 2 {
		d, err := New(Options{Ordinal: i % len(all), Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		devices = append(devices, d)
	}
	return devices
}

// TestGroup: the parts of a model run on two GPUs without the host between, by our kernels and, if it is there, by NCCL.
func TestGroup(t *testing.T) {
	for _, transport := range []string{OwnKernels, OnlyNCCL} {
		if all, _ := Devices(); transport == OnlyNCCL && len(all) < 2 {
			continue
		}
		if _, err := nccl.Open(); transport == OnlyNCCL && err != nil {
			continue
		}
		for _, l := range []pass.Layout{{Tensor: 2, Pipeline: 1, Data: 1}, {Tensor: 1, Pipeline: 2, Data: 1}, {Tensor: 1, Pipeline: 1, Data: 1, Sequence: 2, Method: pass.Ulysses},
			{Tensor: 1, Pipeline: 1, Data: 2, Expert: 2}, {Tensor: 1, Pipeline: 1, Data: 1, Sequence: 2, Expert: 2, Method: pass.Ulysses},
			{Tensor: 1, Pipeline: 1, Data: 1, Sequence: 2, Method: pass.Ring}} {
			t.Run(transport+" "+l.String(), func(t *testing.T) { groupRuns(t, l, transport) })
		}
	}
}

// smallGroup is a small model on two GPUs, and steps for it.
func smallGroup(t *testing.T, l pass.Layout, transport string) (*compile.Group, func(seed uint64) []*backend.Batch) {
	name := "llama-default"
	if l.Expert > 1 {
		name = "gptoss-yarn"
	}
	b, err := modeldir.Open("../../internal/check/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	devices := pair(t, transport)
	g, err := b.Model.Graph(model.Options{Act: graph.BF16, Cache: graph.F16})
	if err != nil {
		t.Fatal(err)
	}
	steps := testkit.Steps{{65, 1}, {1, 1}, {1, 1}}
	lim := testkit.LimitsFor(steps, 16)
	lim.Divide(l.PageRanks())
	lim.KeepAll(g)
	if l.Data > 1 {
		lim.Times(l.Data)
	}
	group, err := compile.CompileGroup(g, pass.Options{Layout: l, Kernels: compile.Kernels{Device: devices[0]}}, devices, b, lim)
	if errors.Is(err, ptx.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip("the source of a kernel is newer than the PTX; make ptx rebuilds that")
	}
	if err != nil {
		t.Fatal(err)
	}
	return group, func(seed uint64) []*backend.Batch { return testkit.Sequence(steps, lim, group.Ids(), false, seed) }
}

// groupRuns: a step of each GPU is one list of launches, recorded where it only decodes; the group ends when it is closed. One that is aborted does nothing more,
// on any GPU, and ends too.
func groupRuns(t *testing.T, l pass.Layout, transport string) {
	for _, fails := range []bool{false, true} {
		group, batches := smallGroup(t, l, transport)
		if moved := strings.Contains(group.String(), "host "); moved != (transport == OnlyNCCL && (l.Data > 1 || l.Sequence > 1) || l.Method == pass.Ring) { // rows are exchanged by our kernels or by the host
			t.Errorf("%s: the host moves what devices exchange: %t\n%s", l, moved, group)
		}
		if got, want := group.RunsAhead(), l.Tensor == 2; got != want || !group.CanSample() {
			t.Errorf("%s: the group says %t when it is asked whether all devices know sampled tokens, and %t whether it samples", l, got, group.CanSample())
		}
		for _, batch := range batches(1) {
			if err := group.Run(batch); err != nil {
				t.Fatal(err)
			}
			if err := group.Sample([]sampling.Sample{{TopP: 1, TypicalP: 1, Future: -1}}); err != nil {
				t.Fatal(err)
			}
			if _, err := group.SampleResults(make([]sampling.Result, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if fails {
			wrong := batches(2)[0]
			wrong.Embeddings, wrong.EmbeddingRows = make([]float32, 1), []int32{0} // not a row: its launch is an error
			if err := group.Run(wrong); err == nil {
				t.Errorf("%s: a step that cannot be launched is none", l)
			}
			if err := group.Run(batches(3)[0]); !errors.Is(err, backend.ErrLost) {
				t.Errorf("%s: a step behind one that failed on a GPU gives %v; the others may wait for what does not come", l, err)
			}
		}
		start := time.Now()
		group.Close()
		if took := time.Since(start); took > endPatience/2 {
			t.Errorf("%s: the group was closed after %v", l, took)
		}
	}
}

// TestGroupRefused: why GPUs cannot exchange numbers is said, and no rank waits for the others.
func TestGroupRefused(t *testing.T) {
	if _, err := New(Options{Transport: "pigeon"}); err == nil || !strings.Contains(err.Error(), `not through "pigeon"`) {
		if _, none := Devices(); none == nil {
			t.Errorf("a transport of that name: %v", err)
		}
	}
	if _, err := nccl.Open(); !errors.Is(err, nccl.ErrMissing) {
		t.Skip("NCCL is here")
	}
	all, err := Devices()
	if err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	comms, errs := local.New(2), [2]error{}
	var joining sync.WaitGroup
	for i := range 2 {
		d, err := New(Options{Ordinal: i % len(all), Transport: OnlyNCCL})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		joining.Go(func() { _, errs[i] = d.Join(comms[i]) })
	}
	joining.Wait()
	for i, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "NCCL is not there") {
			t.Errorf("rank %d of two joins without NCCL: %v", i, err)
		}
	}
}
