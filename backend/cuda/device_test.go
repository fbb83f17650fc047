package cuda

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/plan"
	"github.com/ridge-llm/ridge/quant"
)

// archs are the compute capabilities whose kernels are tested: the GPU's own, and the oldest.
var archs = []int{0, 80}

// gpu opens the first GPU, or skips the test and says why there is none.
func gpu(t *testing.T, arch int) *Device {
	t.Helper()
	if _, err := Devices(); err != nil {
		t.Skipf("no GPU to test on: %v", err)
	}
	d, err := New(Options{Arch: arch})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// opTest is a case of the op table with what the reference backend makes of it.
type opTest struct {
	name, op  string // the op with its types: what tests are chosen by, as the sanitizer does
	graph     *graph.Graph
	seed      uint64
	weights   plan.Tensors // nil: random ones are made when they are first needed
	lim       backend.Limits
	batches   []*backend.Batch
	want      [][]float32
	tolerance float64
}

// eachCase goes through the cases of the op table, in F32, and in BF16, where both sides round to the same type but sum in another order,
// so that results may differ by a rounding; of attention with every type of cache.
func eachCase(do func(c testkit.Case, number int, act, cache graph.Type)) {
	for i, c := range testkit.Cases() {
		for _, act := range []graph.Type{graph.F32, graph.BF16} {
			for _, cache := range []graph.Type{graph.BF16, graph.F32, graph.F16, graph.I8, graph.F8} {
				if c.Op == "Attention" || cache == graph.BF16 {
					do(c, i, act, cache)
				}
			}
		}
	}
}

// opTests is all of them.
var opTests = sync.OnceValues(func() (all []*opTest, failed error) {
	eachCase(func(c testkit.Case, i int, act, cache graph.Type) {
		g, err := c.Built(act, cache)
		if err != nil {
			if act == graph.F32 { // otherwise it is an op of F32 only
				failed = err
			}
			return
		}
		lim, seed := testkit.LimitsFor(c.Steps, 16), uint64(i)
		o := &opTest{fmt.Sprintf("%s/%s/%s", c.Name, act, cache), fmt.Sprintf("%s/%s", c.Op, act), g, seed, nil, lim, c.Batches(lim, seed), nil, max(c.Tolerance, 1e-6)}
		if c.Op == "Attention" {
			o.op += fmt.Sprintf("/%s", cache)
		}
		if act == graph.BF16 {
			o.tolerance = 2e-2
		}
		all = append(all, o)
	})
	return all, failed
})

// variant says which kernels a case runs: its op, their names, whether rows are one, few or many, and, where kernels are made for them, the
// weights' formats and the sizes of heads. With -short, as the sanitizer has it, one case of each is tested.
func (o *opTest) variant(d *Device) string {
	rows := "many rows"
	switch {
	case o.lim.Tokens == 1:
		rows = "1 row"
	case o.lim.Tokens <= 8:
		rows = "few rows"
	}
	s := []string{o.op, rows}
	for _, n := range o.graph.Nodes {
		name, attention := d.Kernels(n)[0].Name(), n.Op.Name() == "Attention"
		switch s = append(s, name); {
		case attention:
			s = append(s, fmt.Sprint(len(n.Weights) > 0, n.Op.(graph.Attention).Both))
		default:
			s = append(s, n.Op.Attrs())
		}
		if strings.Contains(name, "plain") {
			continue
		}
		for _, w := range n.Weights[:min(1, len(n.Weights))] {
			s = append(s, w.Format.String())
		}
		if attention {
			s = append(s, fmt.Sprint(n.In[1].Cache.K.Size))
		}
	}
	return strings.Join(s, ", ")
}

// references makes the cases' weights and computes what the reference backend makes of the cases, once, with all cores.
func references(all []*opTest) error {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, o := range all {
		if o.want != nil {
			continue
		}
		group.Go(func() (err error) {
			if o.weights == nil {
				if o.weights, err = testkit.RandomWeights(o.graph, o.seed); err != nil {
					return err
				}
			}
			o.want, err = testkit.Outputs(o.graph, ref.New(), o.weights, o.lim, o.batches)
			return err
		})
	}
	return group.Wait()
}

// TestOps compares every case of the op table with the reference.
func TestOps(t *testing.T) {
	for _, arch := range archs {
		t.Run(fmt.Sprint("arch", arch), func(t *testing.T) {
			d := gpu(t, arch)
			all, err := opTests()
			if err != nil {
				t.Fatal(err)
			}
			ops := map[string][]*opTest{}
			variants := map[string]bool{}
			tested := 0
			for _, o := range all {
				if leftOut(o.graph) != "" || testing.Short() && variants[o.variant(d)] {
					continue
				}
				ops[o.op] = append(ops[o.op], o)
				variants[o.variant(d)] = true
				tested++
			}
			for _, op := range slices.Sorted(maps.Keys(ops)) {
				t.Run(op, func(t *testing.T) {
					if err := references(ops[op]); err != nil {
						t.Fatal(err)
					}
					for _, o := range ops[op] {
						compare(t, d, o)
					}
				})
			}
			t.Logf("%d of %d cases", tested, len(all))
		})
	}
}

func compare(t *testing.T, d *Device, o *opTest) {
	t.Helper()
	got, err := testkit.Outputs(o.graph, d, o.weights, o.lim, o.batches)
	if err != nil {
		t.Fatalf("%s: %v", o.name, err)
	}
	for step := range o.want {
		if e := testkit.WorstError(got[step], o.want[step]); e > o.tolerance {
			t.Errorf("%s: step %d: relative error %.2g, at most %.2g is right", o.name, step, e, o.tolerance)
		}
	}
}

// layers is a decoder with everything that is joined: q, k and v; turning and storing; gate, up and function; from attention to attention. format, "/Q4_0", say, is
// that of its matrices.
func layers(b *graph.Builder, format string, pairing graph.Pairing, headSize, dim, window int) *graph.Value {
	axis := func(name string, count, size int) graph.Axis { return graph.Axis{Name: name, Count: count, Size: size} }
	vocab, hidden, heads, kv, ffn := axis("vocab", 61, 1), axis("hidden", 256, 1), axis("heads", 4, headSize), axis("kv", 2, headSize), axis("ffn", 480, 1)
	if strings.HasSuffix(format, "_K") || format == "/INT4" {
		ffn.Count = 512 // their blocks
	}
	r := &graph.Rotation{Name: "angles", Pairing: pairing, Dim: dim, Theta: 10000}
	x := b.Embed("embd", b.Weight("t_embd", vocab, hidden), 0)
	n := b.RMSNorm("norm", x, b.Vector("norm", hidden), 1e-5)
	for i := range 2 {
		at := func(s string) string { return fmt.Sprintf("%d.%s", i, s) }
		linear := func(name string, x *graph.Value, out graph.Axis) *graph.Value {
			return b.Linear(at(name), x, b.Weight(at(name)+format, out, x.Axis), nil)
		}
		addNorm := func(name string, x, y *graph.Value) (sum, norm *graph.Value) {
			out := b.Emit(at(name), graph.AddNorm{Eps: 1e-5}, []*graph.Value{x, y}, b.Vector(at(name), hidden))
			return out[0], out[1]
		}
		q, k, v := linear("q", n, heads), linear("k", n, kv), linear("v", n, kv)
		q, k = b.RoPE(at("q.rot"), q, r), b.RoPE(at("k.rot"), k, r)
		cache := b.KVWrite(b.Cache(i, kv, kv, window), k, v)
		o := b.Attention(at("attn"), q, cache, graph.Attention{Scale: 0.125})
		x, n = addNorm("sum", x, linear("o", o, hidden))
		gate, up := linear("gate", n, ffn), linear("up", n, ffn)
		x, n = addNorm("out", x, linear("down", b.ActMul(at("act"), gate, up, graph.Silu), hidden))
	}
	return b.Linear("logits", b.Pick("picked", n), b.Weight("head", vocab, hidden), nil)
}

// joinedTests is whole layers, whose launches are joined, over prompts, chunks, mixed steps and recorded decoding.
var joinedTests = sync.OnceValues(func() (all []*opTest, err error) {
	steps := testkit.Steps{{150, 1, 20}, {1, 1, 1}, {1, 1, 1}, {1, 37, 0}, {1, 1, 1}, {40, 1, 1}, {1, 1, 1}, {1, 0, 0}, {1, 0, 1}, {1, 1, 0}, {0, 1, 0}}
	for _, c := range []struct {
		pairing               graph.Pairing
		headSize, dim, window int
		format                string
	}{
		{graph.HalfPairs, 64, 64, 0, ""}, {graph.AdjacentPairs, 128, 128, 0, ""}, {graph.HalfPairs, 128, 64, 50, ""}, {graph.AdjacentPairs, 80, 80, 0, ""},
		{graph.HalfPairs, 256, 256, 0, ""}, {graph.HalfPairs, 128, 128, 0, "/Q4_0"}, {graph.HalfPairs, 128, 128, 0, "/Q8_0"},
		{graph.HalfPairs, 128, 128, 0, "/Q4_1"}, {graph.HalfPairs, 128, 128, 0, "/MXFP4"}, {graph.HalfPairs, 128, 128, 0, "/Q4_K"}, {graph.HalfPairs, 128, 128, 0, "/Q6_K"},
		{graph.HalfPairs, 128, 128, 0, "/FP8"}, {graph.HalfPairs, 128, 128, 0, "/INT8"}, {graph.HalfPairs, 128, 128, 0, "/INT4"}, {graph.HalfPairs, 128, 128, 0, "/BF16"},
	} {
		for _, cache := range []graph.Type{graph.BF16, graph.F16, graph.I8, graph.F8} {
			b := graph.NewBuilder("layers", testkit.Find, graph.BF16, cache)
			g, err := b.Finish(layers(b, c.format, c.pairing, c.headSize, c.dim, c.window))
			if err == nil {
				var o pass.Options
				if c.format == "/BF16" {
					o.Weights = quant.INT4 // the device rounds them
				}
				g, err = pass.Run(g, "actquant", o) // and what meets FP8 and INT8
			}
			if err != nil {
				return nil, err
			}
			w, err := testkit.RandomWeights(g, 7)
			if err != nil {
				return nil, err
			}
			lim := testkit.LimitsFor(steps, 16)
			tolerance := 4e-2
			if c.format == "/FP8" || c.format == "/INT8" {
				tolerance = 1e-1 // a number of BF16 that differs by a rounding may become the next of few codes
			}
			all = append(all, &opTest{fmt.Sprintf("%+v %s", c, cache), "", g, 0, w, lim, testkit.Sequence(steps, lim, 61, false, 7), nil, tolerance})
		}
	}
	return all, references(all)
})

// TestJoined compares them with the reference.
func TestJoined(t *testing.T) {
	for _, arch := range archs {
		t.Run(fmt.Sprint("arch", arch), func(t *testing.T) {
			d := gpu(t, arch)
			all, err := joinedTests()
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range all {
				compare(t, d, o)
			}
		})
	}
}
