package capacity_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/model"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
	"github.com/ridge-llm/ridge/price/capacity"
)

// part is the graph of one device of a layout.
func part(t *testing.T, g *graph.Graph, l pass.Layout, at pass.Rank) *graph.Graph {
	t.Helper()
	p, err := pass.Partition(g, pass.Options{Layout: l, Rank: at})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// count is how many nodes of each op a graph has.
func count(g *graph.Graph) map[string]int {
	n := map[string]int{}
	for _, node := range g.Nodes {
		n[node.Op.Name()]++
	}
	return n
}

// wholeTable is what every device has all of: embeddings of layers, whose table is only looked up, and on GPUs is in host memory.
const wholeTable = "per_layer_token_embd.weight"

// TestRanksAddUp: what the devices of a layout hold comes to the whole model, norms, shared key heads and embeddings of layers apart.
func TestRanksAddUp(t *testing.T) {
	for _, shape := range model.Shapes() {
		g := build(t, shape, "", graph.BF16)
		whole := capacity.MemoryOf(g, 1, 1)
		for _, l := range []pass.Layout{tensor(2), {Tensor: 1, Pipeline: 2, Data: 1}, {Tensor: 2, Pipeline: 3, Data: 1}, tensor(8)} {
			if l.Check(g) != nil || l.Tensor > 1 && slices.ContainsFunc(g.Caches, (*graph.Cache).Recurrent) {
				continue // recurrent layers are whole on every device of a stage
			}
			var matrices, cache int64
			for s := range l.Pipeline {
				r := part(t, g, l, pass.Rank{Stage: s})
				for _, w := range r.Weights {
					if w.Out.Len() > 1 && w.Tensor != wholeTable {
						matrices += w.Bytes()
					}
				}
				cache += capacity.MemoryOf(r, 1, 1).CacheToken
			}
			all, most := float64(sum(g.Weights)), 1.0
			for _, w := range g.Weights {
				most = max(most, 1.1+float64(w.Bytes())/all) // the first and the last stage have a table that is the head too
			}
			if share := float64(matrices) * float64(l.Tensor) / all; share < 0.98 || share > most {
				t.Errorf("%s, %s: the devices hold %.2f of the matrices", shape, l, share)
			}
			if want := whole.CacheToken; cache*int64(l.Tensor) < want {
				t.Errorf("%s, %s: the devices keep %d bytes for a token, and %d are needed", shape, l, cache*int64(l.Tensor), want)
			}
		}
	}
}

func sum(weights []*graph.Weight) (n int64) {
	for _, w := range weights {
		if w.Tensor != wholeTable {
			n += w.Bytes()
		}
	}
	return n
}

// TestCommunication counts the collectives of tensor parallelism: two sums of the residual stream a layer, one for the
// embedding, and the logits gathered; and what passes between pipeline stages.
func TestCommunication(t *testing.T) {
	g := build(t, "llama-3.1-8b", "", graph.BF16)
	if n := count(part(t, g, tensor(4), pass.Rank{})); n["AllReduce"] != 2*32+1 || n["AllGather"] != 1 || n["Recv"]+n["Send"] != 0 {
		t.Errorf("collectives of tensor parallelism: %v", n)
	}
	l := pass.Layout{Tensor: 1, Pipeline: 2, Data: 1}
	first, last := count(part(t, g, l, pass.Rank{})), count(part(t, g, l, pass.Rank{Stage: 1}))
	if first["Send"] != 1 || first["Recv"] != 0 || last["Recv"] != 1 || last["Send"] != 0 {
		t.Errorf("between two stages: %v and %v", first, last)
	}
}

// TestEstimates: every figure is finite for all devices and odd workloads, more devices never take longer for a step of
// long prompts, and what does not fit is 0 sequences.
func TestEstimates(t *testing.T) {
	for _, p := range price.Devices() {
		s, err := capacity.New(build(t, "llama-3.2-1b", "", p.ActType()), p, tensor(1), capacity.Limits{StepTokens: 512, Sequences: 512, Context: 1 << 17, Utilization: 0.9}, "partition", pass.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range []capacity.Workload{{1, 1}, {1, 5000}, {100_000, 1}, {500, 500}} {
			for _, n := range []int{1, 3, 511, 512} {
				e := s.Estimate(w, n)
				for _, x := range []float64{e.TTFT, e.ITL, e.Rate, e.Requests, e.Dollars} {
					if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
						t.Fatalf("%s, %+v, %d sequences: %+v", p.Name, w, n, e)
					}
				}
			}
		}
	}
	one := setup(t, "llama-3.1-70b", "", "h100-sxm", tensor(1), 0.9)
	w := capacity.Workload{Input: 1000, Output: 100}
	if one.MaxBatch(w) != 0 || one.MaxContext() != 0 {
		t.Errorf("70B in bf16 fits on 80 GB: %d sequences", one.MaxBatch(w))
	}
	four, eight := setup(t, "llama-3.1-70b", "", "h100-sxm", tensor(4), 0.9), setup(t, "llama-3.1-70b", "", "h100-sxm", tensor(8), 0.9)
	if a, b := four.Estimate(w, 8), eight.Estimate(w, 8); b.TTFT >= a.TTFT || b.TTFT < a.TTFT/2 {
		t.Errorf("a first token takes %.3f s over 4 devices and %.3f s over 8", a.TTFT, b.TTFT)
	}
}

// TestBestKeepsThePromise also looks that a larger batch would not.
func TestBestKeepsThePromise(t *testing.T) {
	s, w := setup(t, "llama-3.1-8b", "", "h200", tensor(1), 0.9), capacity.Workload{Input: 1000, Output: 200}
	free, ok := s.Best(w, capacity.SLO{})
	if !ok {
		t.Fatal("nothing fits")
	}
	promise := capacity.SLO{ITL: free.ITL / 2}
	e, ok := s.Best(w, promise)
	if !ok || e.ITL > promise.ITL || e.Batch >= free.Batch {
		t.Errorf("%+v with %.4f s promised; %+v without", e, promise.ITL, free)
	}
	if more := s.Estimate(w, e.Batch+e.Batch/4+1); more.ITL <= promise.ITL {
		t.Errorf("%d sequences would keep the promise too", more.Batch)
	}
	if _, ok := s.Best(w, capacity.SLO{ITL: 1e-6}); ok {
		t.Error("a microsecond is kept")
	}
}

func TestRefusals(t *testing.T) {
	g := build(t, "qwen2.5-7b", "", graph.BF16)
	h200, _ := price.Device("h200")
	apple, err := price.Device("m1-ultra")
	if err != nil {
		t.Fatal(err)
	}
	good := capacity.Limits{StepTokens: 512, Sequences: 8, Context: 1000, Utilization: 0.9}
	for _, c := range []struct {
		l    pass.Layout
		dev  *price.Profile
		lim  capacity.Limits
		want string
	}{
		{tensor(3), h200, good, "cannot be divided equally among 3 devices"},
		{tensor(0), h200, good, "less than one device"},
		{pass.Layout{Tensor: 1, Pipeline: 29, Data: 1}, h200, good, "29 pipeline stages for the 28 layers"},
		{pass.Layout{Tensor: 2, Pipeline: 1, Data: 1, Expert: 2}, h200, good, "divides experts, and qwen2 has none"},
		{pass.Layout{Tensor: 1, Pipeline: 1, Data: 3, Expert: 2}, h200, good, "divides experts among 2 devices"},
		{tensor(2), apple, good, "has no link_bytes_per_second, which AllReduce needs"},
		{tensor(1), h200, capacity.Limits{StepTokens: 512, Sequences: 8, Context: 1000, Utilization: math.NaN()}, "more than 0 and at most 1"},
		{tensor(1), h200, capacity.Limits{Sequences: 8, Context: 1000, Utilization: 1}, "each must be 1 or more"},
	} {
		if _, err := capacity.New(g, c.dev, c.l, c.lim, "partition", pass.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, and %q is wanted", c.l, err, c.want)
		}
	}
	if err := (capacity.Training{Zero: 4, Sequences: 1, Length: 1}).Check(); err == nil {
		t.Error("there is a ZeRO stage 4")
	}
}

// TestRecomputeKeepsLess: a layer's beginning and one whole layer, instead of all of every layer.
func TestRecomputeKeepsLess(t *testing.T) {
	g := build(t, "llama-3.1-8b", "", graph.BF16)
	l := tensor(1)
	all := training(t, g, l, capacity.Training{Sequences: 1, Length: 100}).Activations
	few := training(t, g, l, capacity.Training{Sequences: 1, Length: 100, Recompute: true}).Activations
	const stream = 4096 * 2 * 100
	if few < 32*stream || few > all/10 {
		t.Errorf("%d bytes with recomputation, %d without; the layers' beginnings alone are %d", few, all, 32*stream)
	}
}

// TestExpertParallel: devices that divide experts hold all of them together, once, whatever else they hold; and their rows
// reach more of them than one device's alone.
func TestExpertParallel(t *testing.T) {
	g := build(t, "qwen3-30b-a3b", "", graph.BF16)
	experts := func(l pass.Layout) (bytes, other, flops, read int64, r *graph.Graph) {
		r = part(t, g, l, pass.Rank{})
		step := &graph.Step{Seqs: []graph.Seq{{New: 4}}}
		for _, n := range r.Nodes {
			if _, ok := n.Op.(graph.MoE); ok {
				bytes += sum(n.Weights)
				w := n.Op.Work(n, step)
				flops, read = flops+w.FLOPs, read+w.WeightBytes
			}
		}
		return bytes, sum(r.Weights) - bytes, flops, read, r
	}
	all, rest, work, once, _ := experts(tensor(1))
	for _, c := range []struct {
		l         pass.Layout
		devices   int64 // that divide the experts, or cut them
		exchanged int
	}{
		{pass.Layout{Tensor: 4, Pipeline: 1, Data: 1}, 4, 0},
		{pass.Layout{Tensor: 4, Pipeline: 1, Data: 1, Expert: 2}, 4, 0},
		{pass.Layout{Tensor: 4, Pipeline: 1, Data: 1, Expert: 4}, 4, 0},
		{pass.Layout{Tensor: 1, Pipeline: 1, Data: 8, Expert: 8}, 8, 48},
		{pass.Layout{Tensor: 2, Pipeline: 1, Data: 8, Expert: 16}, 16, 48},
	} {
		bytes, other, flops, read, r := experts(c.l)
		if bytes*c.devices != all {
			t.Errorf("%s: %d bytes of experts on each of %d devices, %d in all", c.l, bytes, c.devices, all)
		}
		if c.l.Tensor == 1 && other != rest {
			t.Errorf("%s: %d bytes beside the experts, and a whole replica has %d", c.l, other, rest)
		}
		if part := float64(flops) * float64(c.l.Tensor) / float64(work); part < 0.99 || part > 1.05 {
			t.Errorf("%s: the devices of a replica do %.2f of its work", c.l, part)
		}
		if n := count(r); n["Dispatch"] != c.exchanged || n["Combine"] != c.exchanged || c.l.Tensor > 1 && n["AllReduce"] != 2*48+1 {
			t.Errorf("%s: collectives: %v", c.l, n)
		}
		if c.exchanged > 0 && read*c.devices <= once {
			t.Errorf("%s: the rows of several replicas read %d bytes of experts, those of one %d", c.l, read*c.devices, once)
		}
	}
}

// TestWorkspace: of 32 heads of 64 a sequence has results with two numbers each in float32, beside its page table and a step's
// four numbers a token; all of it is taken off what the cache may have.
func TestWorkspace(t *testing.T) {
	p, err := price.Device("h200")
	if err != nil {
		t.Fatal(err)
	}
	s, err := capacity.New(build(t, "llama-3.2-1b", "", p.ActType()), p, tensor(1), capacity.Limits{StepTokens: 100, Sequences: 10, Context: 150, Utilization: 0.9}, "partition", pass.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := s.Memory
	if want := int64(100*4*4 + 10*(10*4+32*(64+2)*4)); m.Workspace != want {
		t.Errorf("the workspace has %d bytes; %d are right", m.Workspace, want)
	}
	if got, want := s.CacheTokens(), (s.Usable-m.Weights-m.Activations-m.Workspace)/m.CacheToken; got != want {
		t.Errorf("there is room for %d tokens; %d are right", got, want)
	}
}
