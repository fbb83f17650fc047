package cpu

import (
	"fmt"
	"math"
	"testing"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/backend/cpu/threads"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
)

// TestBarriers: a layer as most models have it needs a barrier only where a worker reads what another wrote.
func TestBarriers(t *testing.T) {
	d := &Device{tier: gemm.Tiers()[0], pool: newWorkers(gemm.Tiers()[0], 2, threads.Topology{})}
	d.start()
	defer d.Close()
	p := layers(t, d, 1)
	defer p.Close()
	batch := testkit.Sequence(testkit.Steps{{5}}, p.Limits(), 61, false, 1)[0]
	if err := p.Run(batch); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{
		"angles": false, "q_rot": true,
		"q": true, "k": false, "v": false, // three matmuls of one input
		"k_rot": false, "kv.0'2": false, // token by token
		"attn": true, "o": true, "sum": true,
		"gate": true, "up": false, "act": true, // work stealing: which worker computed which rows is not known
		"down": true,
	}
	seen := 0
	for i, l := range d.schedule.launches {
		if wait, ok := want[l.String()]; ok {
			seen++
			if d.schedule.wait[i] != wait {
				t.Errorf("a barrier before %s: %v; %v is right", l, d.schedule.wait[i], wait)
			}
		}
	}
	if seen != len(want) {
		t.Errorf("%d of %d launches found in\n%s", seen, len(want), p)
	}
}

// TestStepAllocates: a step allocates nothing. The count is the whole process's, and the runtime allocates when it parks a
// goroutine on a busy machine, so one try of several must be clean.
func TestStepAllocates(t *testing.T) {
	d := &Device{tier: gemm.Tiers()[0], pool: newWorkers(gemm.Tiers()[0], 2, threads.Topology{})}
	d.start()
	defer d.Close()
	p := layers(t, d, 2)
	defer p.Close()
	for _, b := range testkit.Sequence(testkit.Steps{{40, 3}, {1, 300}, {1, 1}}, p.Limits(), 61, false, 1) {
		least := math.Inf(1)
		for try := 0; try < 10 && least > 0; try++ {
			least = min(least, testing.AllocsPerRun(3, func() {
				if err := p.Run(b); err != nil {
					t.Fatal(err)
				}
			}))
		}
		if least != 0 {
			t.Errorf("a step of %d tokens allocates %g times", len(b.Tokens), least)
		}
	}
}

// layers is a small model: attention and a gated feed-forward block, n times.
func layers(t testing.TB, d *Device, n int) *compile.Program {
	b := graph.NewBuilder("layers", testkit.Lookup, graph.F32, graph.F16)
	one := func(name string, size int) graph.Axis { return graph.Axis{Name: name, Count: size, Size: 1} }
	hidden, ffn := one("hidden", 256), one("ffn", 512)
	heads, kv := graph.Axis{Name: "heads", Count: 4, Size: 64}, graph.Axis{Name: "kv", Count: 2, Size: 64}
	rotation := &graph.Rotation{Name: "angles", Pairing: graph.HalfPairs, Dim: 64, Theta: 10000}
	x := b.Embed("embd", b.Weight("token_embd", one("vocab", 61), hidden), 0)
	for i := range n {
		name := func(s string) string {
			if n == 1 {
				return s
			}
			return fmt.Sprintf("%s.%d", s, i)
		}
		linear := func(to string, x *graph.Value, out graph.Axis) *graph.Value {
			return b.Linear(name(to), x, b.Weight(name(to)+"/Q8_0", out, one("in", x.Axis.Len())), nil)
		}
		quantize := func(x *graph.Value) *graph.Value {
			return b.Emit(x.Name+".q8", graph.Quantize{To: graph.Q8}, []*graph.Value{x})[0]
		}
		in := quantize(b.RMSNorm(name("norm"), x, b.Vector(name("norm"), hidden), 1e-5))
		q, k, v := linear("q", in, heads), linear("k", in, kv), linear("v", in, kv)
		q, k = b.RoPE(name("q_rot"), q, rotation), b.RoPE(name("k_rot"), k, rotation)
		cache := b.KVWrite(b.Cache(i, kv, kv, 0), k, v)
		o := linear("o", quantize(b.Attention(name("attn"), q, cache, graph.Attention{Scale: 0.1})), hidden)
		both := b.Emit(name("sum"), graph.AddNorm{Eps: 1e-5}, []*graph.Value{x, o}, b.Vector(name("ffn_norm"), hidden))
		in = quantize(both[1])
		act := b.ActMul(name("act"), linear("gate", in, ffn), linear("up", in, ffn), graph.Silu)
		x = b.Add(name("ffn_sum"), both[0], linear("down", quantize(act), hidden))
	}
	g, err := b.Finish(x)
	if err != nil {
		t.Fatal(err)
	}
	w, err := testkit.RandomWeights(g, 3)
	if err != nil {
		t.Fatal(err)
	}
	p, err := compile.Compile(g, d, w, backend.Limits{Tokens: 301, Seqs: 2, Logits: 1, Pages: 48, PageSize: 16, SeqPages: 24})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
