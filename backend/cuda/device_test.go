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
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/pass"
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
	name, op  string // the op with its types
	graph     *graph.Graph
	files     *graph.Graph // the graph with its weights as files have them
	seed      uint64
	weights   compile.Tensors // random, made when they are first needed
	lim       backend.Limits
	batches   []*backend.Batch
	want      [][]float32
	tolerance float64
	fuse      bool // what the device computes as one
}

// fused is the graph as a device is given it.
func (o *opTest) fused(d *Device) (*graph.Graph, error) {
	if !o.fuse {
		return o.graph, nil
	}
	return pass.Fuse(o.graph, pass.Options{Kernels: compile.Kernels{Device: d}})
}

// eachCase goes through the cases of the op table, in F32, and in BF16, where both sides round to the same type but sum in another order,
// so that results may differ by a rounding; of attention with every type of cache. What takes rows in F32 only has no graph in BF16.
func eachCase(do func(c testkit.Case, number int, g *graph.Graph, act, cache graph.Type)) error {
	for i, c := range testkit.Cases() {
		for _, act := range []graph.Type{graph.F32, graph.BF16} {
			for _, cache := range []graph.Type{graph.BF16, graph.F32, graph.F16, graph.I8, graph.F8, graph.I4} {
				if !c.Attends() && cache != graph.BF16 {
					continue
				}
				g, err := c.Built(act, cache)
				switch {
				case err == nil:
					do(c, i, g, act, cache)
				case cache == graph.I4: // latent vectors, and attention both ways
				case act == graph.F32 || !strings.Contains(err.Error(), "is bf16 and f32 is wanted"):
					return err
				}
			}
		}
	}
	return nil
}

// opTests is all of them.
var opTests = sync.OnceValues(func() (all []*opTest, err error) {
	err = eachCase(func(c testkit.Case, i int, g *graph.Graph, act, cache graph.Type) {
		lim, seed := testkit.LimitsFor(c.Steps, graph.PageTokens(cache)), uint64(i)
		lim.KeepAll(g)
		o := &opTest{fmt.Sprintf("%s/%s/%s", c.Name, act, cache), fmt.Sprintf("%s/%s", c.Op, act), g, g, seed, nil, lim, c.Batches(lim, seed), nil, max(c.Tolerance, 1e-6), false}
		if c.Attends() {
			o.op += fmt.Sprintf("/%s", cache)
			if len(c.Fuse) > 0 && cache != graph.F32 {
				o.tolerance = max(o.tolerance, 1e-3) // keys are made by the node itself: one in the middle between two numbers of the cache may be rounded either way
			}
			if len(c.Fuse) > 0 && cache == graph.F8 {
				o.tolerance = 1e-2 // the two numbers are an eighth apart
			}
		}
		if act == graph.BF16 {
			o.tolerance = 2e-2
		}
		all = append(all, o)
	})
	return all, err
})

// chosen are the cases that a device computes; with few, one of each variant.
func chosen(all []*opTest, d *Device, few bool) (some []*opTest) {
	variants := map[string]bool{}
	for _, o := range all {
		if leftOut(o.graph) != "" {
			continue
		}
		if v := o.variant(d); !few || !variants[v] {
			variants[v] = true
			some = append(some, o)
		}
	}
	return some
}

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
		name, attention := "taken apart", n.Op.Name() == "Attention"
		if k := d.Kernels(n); len(k) > 0 {
			name = k[0].Name()
		}
		switch s = append(s, name); {
		case attention:
			s = append(s, fmt.Sprint(len(n.Weights) > 0, n.Op.(graph.Attention).Bidirectional))
		default:
			s = append(s, n.Op.Attrs())
		}
		if strings.Contains(name, "simt") {
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
				if o.weights, err = testkit.RandomWeights(o.files, o.seed); err != nil {
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
			some := chosen(all, d, testing.Short())
			compareAll(t, d, some)
			t.Logf("%d of %d cases", len(some), len(all))
		})
	}
}

// test is what the case is a part of and chosen by, as the sanitizer does: the op with its types, and the weights' format where it has many.
func (o *opTest) test() string {
	for _, n := range o.graph.Nodes {
		if name := n.Op.Name(); (name == "Linear" || name == "MoE") && strings.HasPrefix(o.op, name) {
			return fmt.Sprintf("%s/%s", o.op, n.Weights[0].Format)
		}
	}
	return o.op
}

// compareAll compares cases with the reference.
func compareAll(t *testing.T, d *Device, all []*opTest) {
	tests := map[string][]*opTest{}
	for _, o := range all {
		tests[o.test()] = append(tests[o.test()], o)
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, func(t *testing.T) {
			if err := references(tests[name]); err != nil {
				t.Fatal(err)
			}
			for _, o := range tests[name] {
				compare(t, d, o)
			}
		})
	}
}

func compare(t *testing.T, d *Device, o *opTest) {
	t.Helper()
	g, err := o.fused(d)
	if err != nil {
		t.Fatalf("%s: %v", o.name, err)
	}
	got, err := testkit.Outputs(g, d, o.weights, o.lim, o.batches)
	if err != nil {
		t.Fatalf("%s: %v", o.name, err)
	}
	for step := range o.want {
		if e := testkit.WorstError(got[step], o.want[step]); e > o.tolerance {
			t.Errorf("%s: step %d: relative error %.2g, at most %.2g is right", o.name, step, e, o.tolerance)
		}
	}
}
