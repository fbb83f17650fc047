package cpu

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/backend/ref"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/quant"
)

var everyOp = flag.Bool("ops", false, "TestOps: every case under every tier of instructions and with every type of cache")

// TestOps compares every case of the op table with the reference: under every tier of instructions that the machine
// has, with one and with several threads, for each type of cache. Unless -ops is set attention meets types of caches beside F32 by turns, each case
// one or two of four; adapters a quarter of their products; and plain Go, which the kernels' own tests hold in full, every seventh case.
func TestOps(t *testing.T) {
	int4 := 0
	tried := map[string]bool{}
	heavy := 0 // cases, since the last that was tried, of ops that take their time or of which there are many
	for i, c := range testkit.Cases() {
		for j, cache := range []graph.Type{graph.F32, graph.F16, graph.BF16, graph.I8, graph.I4} {
			if cache != graph.F32 && c.Op != "Attention" {
				continue
			}
			if cache == graph.I4 {
				if _, err := c.Built(graph.F32, cache); err != nil {
					continue // latent vectors, and attention both ways
				}
				int4++
			}
			if !*everyOp && (cache != graph.F32 && (i+j)%3 > 0 || c.Op == "AdaptedLinear" && i%4 > 0) {
				continue
			}
			if testing.Short() {
				large := operations(t, c) > shortMost
				switch c.Op {
				case "Attention", "Linear", "MoE", "AdaptedLinear", "AdaptedMoE", "LatentAttention", "LoRA",
					"LinearGroup", "GatedLinear", "LinearAddNorm", "MoEAddNorm", "NormLinear", "NormQuantize":
					if heavy++; heavy < shortPart && tried[c.Op] || large {
						continue // the next that is not large
					}
					heavy = 0
					tried[c.Op] = true
				}
				if large {
					continue
				}
			}
			t.Run(fmt.Sprintf("%s/%s", c.Name, cache), func(t *testing.T) { compare(t, c, cache, uint64(i), *everyOp || (i+j)%7 == 0) })
		}
	}
	if int4 < 100 {
		t.Errorf("%d cases with a cache in int4", int4)
	}
}

// With -short, as make arm64 has it, one case in shortPart, and one at least, is tried of each op that takes its time, and none that takes more operations than
// shortMost; most of the time goes into the reference, whose floats are emulated too. Sizes and formats of the table come in twos, threes, fours
// and fives, so that a prime beside them meets all. The kernels' own tests, below this package, leave out nothing.
const (
	shortPart = 11
	shortMost = 16e6
)

// operations is how many a case takes.
func operations(t *testing.T, c testkit.Case) (sum int64) {
	g, err := c.Built(graph.F32, graph.F32)
	if err != nil {
		t.Fatal(err)
	}
	past := make([]int, len(c.Steps[0]))
	for _, rows := range c.Steps {
		s := graph.Step{Seqs: make([]graph.Seq, len(rows))}
		for i, n := range rows {
			s.Seqs[i] = graph.Seq{New: n, Past: past[i]}
			past[i] += n
			s.Logits += n
		}
		sum += g.Work(&s).FLOPs
	}
	return sum
}

// tiers are those of the machine. With -short plain Go is not among them: it runs alike on every processor.
func tiers() []gemm.Tier {
	all := gemm.Tiers()
	if testing.Short() && len(all) > 1 {
		all = all[:len(all)-1]
	}
	return all
}

// devices are kept for the whole test: one for each tier, with as many threads as its number says.
var devices = sync.OnceValue(func() []*Device {
	var all []*Device
	for i, tier := range tiers() {
		all = append(all, testDevice(tier, 1+i%3))
	}
	return all
})

// groupedError is the error allowed to a grouped matmul, whose weights and inputs have per-group scales, see gemm.GroupedActs: each is
// rounded to 127ths of the largest of 64 or 128. 0 where it is none of those.
func groupedError(dev *Device, g *graph.Graph, rows int) float64 {
	for n := range g.Operations() {
		if r := dev.scaleGroupsOf(n); !r.producer && r.largest > graph.Q8Block && gemm.Grouped(dev.tier, rows) {
			return 0.015
		}
	}
	return 0
}

// wordsError is the error allowed to a product of one input with rows of four-bit codes, for which it is rounded to 16 bits, see vec.Input.
func wordsError(g *graph.Graph) float64 {
	for n := range g.Operations() {
		if _, ok := n.Op.(graph.Linear); ok && slices.Contains([]quant.Format{quant.NF4, quant.FP4, quant.NVFP4_ROW}, n.Weights[0].Format) {
			return 1e-4
		}
	}
	return 0
}

// compare leaves plain Go out unless generic is set or there is nothing else: it takes half of the time of all.
func compare(t *testing.T, c testkit.Case, cache graph.Type, seed uint64, generic bool) {
	g, w, lim, batches, err := c.Build(graph.F32, cache, seed)
	if err != nil {
		t.Fatal(err)
	}
	for n := range g.Operations() {
		if len(devices()[0].Kernels(n)) == 0 {
			t.Skipf("the CPU has no kernel for %s", n)
		}
	}
	want, err := testkit.Outputs(g, ref.New(), w, lim, batches)
	if err != nil {
		t.Fatal(err)
	}
	tolerance := c.Tolerance
	if cache == graph.I8 {
		tolerance = 5e-4 // Q and P are quantized to 16 bits; the cache itself has an error of 4e-3
	}
	for i, dev := range devices() {
		if tiers()[i] == gemm.Generic && !generic && i > 0 {
			continue
		}
		tolerance := max(tolerance, groupedError(dev, g, lim.Tokens), wordsError(g))
		got, err := testkit.Outputs(g, dev, w, lim, batches)
		if err != nil {
			t.Fatal(err)
		}
		for step := range want {
			if e := testkit.WorstError(got[step], want[step]); e > tolerance {
				t.Errorf("%s: step %d: relative error %.2g, at most %.2g is right", dev.Info().Detail, step, e, tolerance)
			}
		}
	}
}
