package cpu

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/internal/testkit"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
)

// TestAdaptedRuns: matmuls and the lora behind them, as one run, compute the bits that they compute one after the other; all of a model's but the head's matrices
// are in such runs. Steps decode, with some rows and with many, read prompts, or have sequences of two adapters.
func TestAdaptedRuns(t *testing.T) {
	for _, tier := range tiers() {
		d := testDevice(tier, 2)
		d.deterministic = true // launch by launch there are no scales of groups
		g, w := smallShape(t, "llama-3.2-1b")
		g, err := pass.Run(g, pass.All, pass.Options{Q8: true, Kernels: compile.Kernels{Device: d}, Adapters: pass.Adapters{Slots: testkit.CaseSlots, Rank: testkit.CaseRank}})
		if err != nil {
			t.Fatal(err)
		}
		steps := testkit.Steps{{3, 1, 1, 1, 1, 1}, {5, 5, 5, 5, 5, 5}, {40, 1, 1, 12, 1, 1}, {1, 2, 1, 1, 1, 1}}
		lim := testkit.LimitsFor(steps, 16)
		lim.Adapters = testkit.CaseSlots
		p, err := compile.Compile(g, d, w, lim)
		if err != nil {
			t.Fatal(err)
		}
		p.Warm()
		setAdapters(t, p)
		for i, b := range testkit.Sequence(steps, p.Limits(), 61, false, 1) {
			if testkit.GiveAdapters(b); i == 3 {
				two := b.Adapters[0]
				two.Nth = 1
				b.Adapters = slices.Insert(b.Adapters, 1, two)
			}
			n := len(b.LogitsIndices)
			together, apart := make([]float32, 61*n), make([]float32, 61*n)
			if err := p.Run(b); err != nil {
				t.Fatal(err)
			}
			if err := p.Logits(together, 0, n); err != nil {
				t.Fatal(err)
			}
			runs := 0
			for j, n := range d.schedule.fused {
				if n > 1 && d.schedule.launches[j+n-1].(*launch).lora != nil {
					runs++
				}
			}
			if want := 2*4 + 1; runs != want {
				t.Errorf("%v: %d runs with adapters, not %d: %s", tier, runs, want, d.scheduleText())
			}
			if err := p.RunTimed(b, make([]time.Duration, len(g.Nodes))); err != nil {
				t.Fatal(err)
			}
			if err := p.Logits(apart, 0, n); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(together, apart) {
				t.Errorf("%v: step %d gives other logits as runs than launch by launch", tier, i)
			}
		}
		p.Close()
		d.Close()
	}
}

// setAdapters gives each slot an adapter of a rank of its own, in BF16.
func setAdapters(t *testing.T, p *compile.Program) {
	for slot := range testkit.CaseSlots {
		rank := []int{testkit.CaseRank, 8, 13}[slot]
		err := p.SetAdapter(slot, func(w *graph.Weight) *graph.LowRank {
			if w.Slots.Table {
				return nil
			}
			return &graph.LowRank{A: randomBF16(uint64(slot), rank, w.In.Len()), B: randomBF16(uint64(slot+9), w.Out.Len(), rank), Scale: 0.5}
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
}

func randomBF16(seed uint64, rows, cols int) quant.Tensor {
	rnd := rand.New(rand.NewPCG(seed, uint64(rows)))
	t := quant.Tensor{Format: quant.BF16, Rows: rows, Cols: cols}
	for range rows * cols {
		t.Data = binary.LittleEndian.AppendUint16(t.Data, uint16(math.Float32bits(rnd.Float32()-0.5)>>16))
	}
	return t
}

// TestBeside: what adapters read next is listed once, in order, and evenly over the places that a product has for it.
func TestBeside(t *testing.T) {
	d := testDevice(gemm.Tiers()[0], 1)
	defer d.Close()
	l := &lora{vec: d.vec, targets: []loraTarget{{out: 64, slots: make(slots, 2)}}}
	for slot := range 2 {
		a, err := d.packAdapter(&graph.LowRank{A: randomBF16(1, 16, 32), B: randomBF16(2, 64, 16), Scale: 1})
		if err != nil {
			t.Fatal(err)
		}
		l.targets[0].slots[slot] = a
	}
	b := testkit.Sequence(testkit.Steps{{1, 1, 1}}, testkit.LimitsFor(testkit.Steps{{1, 1, 1}}, 16), 61, false, 1)[0]
	testkit.GiveAdapters(b)
	for i := range b.Adapters {
		b.Adapters[i].Slot = min(int32(i), 1)
	}
	w := d.pool.all[0]
	places := l.beside(w, b, 0, 32, 64, 9) // two adapters, of each 32 columns of 16 numbers of two bytes
	found := 0
	for i, at := range places {
		if at != 0 {
			if i != found*9/4 {
				t.Errorf("address %d is in place %d of 9", found, i)
			}
			found++
		}
	}
	if len(places) != 9 || found != 4 {
		t.Errorf("%d addresses in %d places, not 4 in 9", found, len(places))
	}
	if places := l.beside(w, b, 0, 32, 64, 3); slices.Contains(places, 0) {
		t.Errorf("there are places for 3 of 4, and not all are used: %v", places)
	}
	if places := l.beside(w, b, 0, 32, 64, 0); len(places) != 0 {
		t.Errorf("without places there are %v", places)
	}
}
