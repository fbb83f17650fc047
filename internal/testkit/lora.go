package testkit

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/compile"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// CaseSlots is how many adapters the cases of the op table have. Those in odd slots scale or replace results too; that in the last is in BF16.
const CaseSlots, CaseRank = 3, 40

// loraCases change results of linears, and embeddings, by adapters of mixed ranks; one sequence of four has none.
func loraCases() []Case {
	var all []Case
	for _, size := range []struct{ out, in, targets int }{{37, 96, 1}, {144, 256, 3}, {40, 1056, 2}} {
		for _, steps := range []Steps{{{1}}, {{1, 1, 1, 1, 1}}, {{5, 3, 9}}, {{33, 1, 20, 2}}} {
			all = append(all, Case{
				Name: fmt.Sprintf("LoRA/%d of %dx%d/rows%d", size.targets, size.out, size.in, LimitsFor(steps, 16).Tokens), Op: "LoRA", Steps: steps, Vary: giveAdapters, Tolerance: 1e-5,
				Graph: func(b *graph.Builder) *graph.Value {
					x := feed(b, "x", axis("in", size.in, 1))
					in, weights := []*graph.Value{x}, []*graph.Weight(nil)
					for i := range size.targets {
						w := b.Weight(fmt.Sprintf("w%d/F32", i), axis("out", size.out, 1), axis("in", size.in, 1))
						in = append(in, b.Linear(fmt.Sprintf("y%d", i), x, w, nil))
						weights = append(weights, b.Slots(fmt.Sprintf("y%d.lora", i), w.Tensor, graph.Slots{Of: w, Count: CaseSlots, Rank: CaseRank}))
					}
					y := b.Emit("y", graph.LoRA{}, in, weights...)
					sum := y[0]
					for _, other := range y[1:] {
						sum = b.Add("sum", sum, other)
					}
					return sum
				},
			})
		}
	}
	all = append(all, adaptedExpertCases()...)
	for _, rest := range []int{0, 8} {
		for _, steps := range []Steps{{{1}}, {{5, 3, 9, 2}}} {
			all = append(all, Case{
				Name: fmt.Sprintf("LoRAHeads/rest%d/rows%d", rest, LimitsFor(steps, 16).Tokens), Op: "LoRAHeads", Steps: steps, Vary: giveAdapters, Tolerance: 1e-5,
				Graph: func(b *graph.Builder) *graph.Value {
					x := feed(b, "x", axis("heads", 3, 40+rest))
					w := b.Stack("w/F32", axis("stack", 3, 1), axis("out", 48, 1), axis("in", 40, 1))
					return b.Emit("y.lora", graph.LoRAHeads{}, []*graph.Value{x, b.HeadLinear("y", x, w, rest)}, b.Slots("products.heads", "products.heads", graph.Slots{Of: w, Count: CaseSlots, Rank: CaseRank}))[0]
				},
			})
		}
	}
	both := func(b *backend.Batch, rnd *rand.Rand) {
		giveAdapters(b, rnd)
		someEmbeddings(96)(b, rnd)
	}
	for _, c := range []struct {
		name  string
		scale float64
		vary  func(*backend.Batch, *rand.Rand)
	}{{"scale0", 0, giveAdapters}, {"scale3.5", 3.5, giveAdapters}, {"embeddings", 3.5, both}} {
		scale := c.scale
		all = append(all, Case{
			Name: "LoRAEmbed/" + c.name, Op: "LoRAEmbed", Vary: c.vary, Steps: Steps{{5, 1, 9, 2}}, Tolerance: 1e-5,
			Graph: func(b *graph.Builder) *graph.Value {
				w := b.Weight("x_embd", axis("vocab", tableVocab, 1), axis("in", 96, 1))
				return b.Emit("y", graph.LoRAEmbed{Scale: scale}, []*graph.Value{b.Embed("x", w, scale)}, b.Slots("x.lora", w.Tensor, graph.Slots{Of: w, Count: CaseSlots, Rank: CaseRank, Table: true}))[0]
			},
		})
	}
	return all
}

// adaptedExpertCases are blocks of experts whose matrices adapters change, in floats, with biases and bounds, and with inputs in Q8.
func adaptedExpertCases() []Case {
	var all []Case
	for _, c := range []struct {
		o         graph.MoE
		in, ffn   int
		format    string
		tolerance float64
	}{
		{graph.MoE{Experts: 4, TopK: 2}, 64, 96, "F32", 1e-5},
		{graph.MoE{Experts: 5, TopK: 2, Biased: true, Clamp: 0.7}, 72, 40, "F32", 1e-5},
		{graph.MoE{Experts: 8, TopK: 3, ActType: graph.Q8}, 256, 256, "Q4_0", 5e-3}, // as in moeCases
	} {
		for _, steps := range []Steps{{{1}}, {{1, 1, 1, 1, 1}}, {{5, 3, 9, 2}}} {
			all = append(all, Case{
				Name: fmt.Sprintf("AdaptedMoE/%d of %d/%s/rows%d", c.o.TopK, c.o.Experts, c.format, LimitsFor(steps, 16).Tokens), Op: "AdaptedMoE", Steps: steps, Vary: giveAdapters, Tolerance: c.tolerance,
				Graph: func(b *graph.Builder) *graph.Value {
					hidden, ffn, experts, one := axis("hidden", c.in, 1), axis("ffn", c.ffn, 1), axis("experts", c.o.Experts, 1), axis("one", 1, 1)
					weights := []*graph.Weight{b.Stack("gate/"+c.format, experts, ffn, hidden), b.Stack("up/"+c.format, experts, ffn, hidden), b.Stack("down/"+c.format, experts, hidden, ffn)}
					if c.o.Biased {
						weights = append(weights, b.Stack("gatebias", experts, one, ffn), b.Stack("upbias", experts, one, ffn), b.Stack("downbias", experts, one, hidden))
					}
					for i, name := range []string{"products.gate", "products.up", "products.down"} {
						weights = append(weights, b.Slots(name, name, graph.Slots{Of: weights[i], Count: CaseSlots, Rank: CaseRank}))
					}
					x := feed(b, "x", hidden)
					in := []*graph.Value{x, feed(b, "scores", experts), x}
					if c.o.ActType == graph.Q8 {
						in[0] = b.Emit("x8", graph.Quantize{To: graph.Q8}, []*graph.Value{x})[0]
					}
					return b.Emit("y", graph.AdaptedMoE{MoE: c.o}, in, weights...)[0]
				},
			})
		}
	}
	return all
}

// fillSlots puts random adapters into the slots of a program, if it has any.
func fillSlots(prog *compile.Program) error {
	if len(prog.Slots()) == 0 {
		return nil
	}
	for slot := range CaseSlots {
		if err := prog.SetAdapter(slot, func(w *graph.Weight) *graph.LowRank { return randomLowRank(w, slot) }, nil); err != nil {
			return err
		}
	}
	return nil
}

// GiveAdapters gives all but every fourth sequence of a batch an adapter.
func GiveAdapters(b *backend.Batch) {
	for s := range b.Seqs() {
		if s%4 < CaseSlots {
			slot := (s + 1) % CaseSlots
			b.Adapters = append(b.Adapters, backend.SeqAdapter{Seq: int32(s), Slot: int32(slot), Scale: 1 - 0.25*float32(s%2), Rank: rankOf(slot), Bytes: bytesOf(slot)})
		}
	}
	slices.SortFunc(b.Adapters, func(x, y backend.SeqAdapter) int {
		return cmp.Or(cmp.Compare(x.Slot, y.Slot), cmp.Compare(x.Seq, y.Seq))
	})
}

func giveAdapters(b *backend.Batch, _ *rand.Rand) { GiveAdapters(b) }

// bytesOf is what a number of the adapter in a slot takes.
func bytesOf(slot int) int32 { return []int32{4, 4, 2}[slot] }

// giveTwoAdapters gives every second sequence that has an adapter the next slot's too.
func giveTwoAdapters(b *backend.Batch, _ *rand.Rand) {
	GiveAdapters(b)
	for _, a := range b.Adapters {
		if a.Seq%2 == 0 {
			a.Slot, a.Nth = (a.Slot+1)%CaseSlots, 1
			a.Rank, a.Bytes = rankOf(int(a.Slot)), bytesOf(int(a.Slot))
			b.Adapters = append(b.Adapters, a)
		}
	}
	slices.SortFunc(b.Adapters, func(x, y backend.SeqAdapter) int {
		return cmp.Or(cmp.Compare(x.Slot, y.Slot), cmp.Compare(x.Seq, y.Seq))
	})
}

// rankOf is the rank of the adapter in a slot.
func rankOf(slot int) int32 { return []int32{CaseRank, 5, 17}[slot] }

// randomLowRank is what the adapter of a slot has for a weight.
func randomLowRank(w *graph.Weight, slot int) *graph.LowRank {
	rnd := rand.New(rand.NewPCG(uint64(len(w.Name)), uint64(slot)))
	tensor := func(rows, cols int) quant.Tensor {
		t := quant.Tensor{Format: quant.F32, Rows: rows, Cols: cols}
		if slot == 2 {
			t.Format = quant.BF16
		}
		for range rows * cols {
			x := float32(rnd.IntN(255)-127) / 256 // which BF16 holds, so that all devices have the same
			if slot == 2 {
				t.Data = binary.LittleEndian.AppendUint16(t.Data, quant.F32ToBF16(x))
			} else {
				t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(x))
			}
		}
		return t
	}
	vector := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rnd.IntN(255)-127) / 128
		}
		return v
	}
	rank := min(int(rankOf(slot)), w.Slots.Rank)
	l := &graph.LowRank{Scale: 0.125}
	if w.Slots.Table {
		l.A, l.B = tensor(w.Out.Len(), rank), tensor(w.In.Len(), rank)
		if slot == 1 {
			l.Rows, l.Indices = tensor(2, w.In.Len()), []int32{3, 7}
		}
		return l
	}
	if n := w.Slots.Of.Matrices(); n > 1 {
		l.Stack, l.A, l.B = n, tensor(n*rank, w.In.Len()), tensor(n*w.Out.Len(), rank)
		return l
	}
	l.A, l.B = tensor(rank, w.In.Len()), tensor(w.Out.Len(), rank)
	if slot == 1 && !strings.HasPrefix(w.Name, "products") {
		l.Columns, l.Bias = vector(w.Out.Len()), vector(w.Out.Len())
	}
	return l
}
