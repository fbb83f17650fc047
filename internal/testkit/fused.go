package testkit

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/quant"
)

// only is a device that computes these kinds of fused ops, and norms before and behind all products in steps of one row.
type only []graph.Kind

// Has implements pass.Kernels.
func (k only) Has(n *graph.Node) bool {
	o, ok := n.Op.(*graph.Fused)
	return ok && slices.Contains(k, o.Kind)
}

// NormRows implements pass.Kernels.
func (k only) NormRows(*graph.Node) int {
	if k.defers() {
		return 1
	}
	return 0
}

func (k only) defers() bool {
	return slices.Contains(k, deferredNorm) || slices.Contains(k, graph.LinearAddNorm)
}

// deferredNorm stands among the kinds of a case whose products compute a norm before them.
const deferredNorm graph.Kind = "DeferredNorm"

// fuse makes the fused ops of a case, which the graph must have all of.
func (c *Case) fuse(g *graph.Graph) (*graph.Graph, error) {
	g, err := pass.Fuse(g, pass.Options{Kernels: only(c.Fuse)})
	if err != nil {
		return nil, err
	}
	for _, kind := range c.Fuse {
		if !slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return n.Op.Name() == string(kind) }) {
			return nil, fmt.Errorf("testkit: case %s has no %s:\n%s", c.Name, kind, g)
		}
	}
	return g, nil
}

// fusedCases are the rows of the table of fusions, on both sides of the row counts where kernels change.
func fusedCases() []Case {
	var all []Case
	add := func(name string, tolerance float64, g func(b *graph.Builder) *graph.Value, kinds ...graph.Kind) {
		for _, steps := range rowSteps() {
			all = append(all, Case{
				Name: fmt.Sprintf("%s/%s/rows%d", kinds[0], name, LimitsFor(steps, 16).Tokens), Op: string(kinds[0]), Fuse: kinds, Graph: g, Steps: steps, Tolerance: tolerance,
			})
		}
	}
	hidden, ffn := axis("hidden", 256, 1), axis("ffn", 512, 1)
	for _, f := range []quant.Format{quant.BF16, quant.BF16_2_4, quant.Q4_0, quant.Q8_0} {
		linear := func(b *graph.Builder, name string, x *graph.Value, out graph.Axis) *graph.Value {
			return b.Linear(name, x, b.Weight("w_"+name+"/"+f.String(), out, x.Axis), b.Vector("bias_"+name, out))
		}
		addNorm := func(b *graph.Builder, x, y *graph.Value) (sum, norm *graph.Value) {
			out := b.Emit("sum", graph.AddNorm{Eps: 1e-5}, []*graph.Value{x, y}, b.Vector("norm", hidden))
			return out[0], out[1]
		}
		add(f.String(), 1e-5, func(b *graph.Builder) *graph.Value {
			x := feed(b, "x", hidden)
			q, k, v := linear(b, "q", x, ffn), linear(b, "k", x, ffn), linear(b, "v", x, ffn)
			return b.Add("y", b.Add("qk", q, k), v)
		}, graph.LinearGroup)
		add(f.String()+"/four", 1e-5, func(b *graph.Builder) *graph.Value { // two of them small, as of a recurrent layer
			x, few := feed(b, "x", hidden), axis("few", 32, 1)
			q, v, alpha, beta := linear(b, "q", x, ffn), linear(b, "v", x, ffn), linear(b, "alpha", x, few), linear(b, "beta", x, few)
			ab := b.Linear("ab", b.ActMul("gated", alpha, beta, graph.Sigmoid), b.Weight("ab/BF16", ffn, few), nil)
			return b.Add("y", b.Add("qv", q, v), ab)
		}, graph.LinearGroup)
		for _, fn := range []graph.Fn{graph.Silu, graph.GeluTanh} {
			add(fmt.Sprintf("%s/%s", f, fn), 1e-5, func(b *graph.Builder) *graph.Value {
				x := feed(b, "x", hidden)
				return b.ActMul("y", linear(b, "gate", x, ffn), linear(b, "up", x, ffn), fn)
			}, graph.GatedLinear)
		}
		if f == quant.BF16 { // norms are computed by products of packed weights
			continue
		}
		add(f.String(), 1e-5, func(b *graph.Builder) *graph.Value {
			return linear(b, "y", b.RMSNorm("n", feed(b, "x", hidden), b.Vector("norm", hidden), 1e-5), ffn)
		}, graph.NormLinear, deferredNorm)
		add(f.String()+"/norm", 1e-5, func(b *graph.Builder) *graph.Value {
			n := b.RMSNorm("n", feed(b, "x", hidden), b.Vector("norm", hidden), 1e-5)
			return b.Add("y", linear(b, "q", n, ffn), b.Add("kv", linear(b, "k", n, ffn), linear(b, "other", n, ffn)))
		}, graph.LinearGroup, deferredNorm)
		add(f.String(), 1e-5, func(b *graph.Builder) *graph.Value {
			sum, n := addNorm(b, feed(b, "residual", hidden), linear(b, "o", feed(b, "x", ffn), hidden))
			return b.Add("y", sum, linear(b, "after", n, hidden))
		}, graph.LinearAddNorm)
		add(f.String()+"/gated", 1e-5, func(b *graph.Builder) *graph.Value {
			sum, n := addNorm(b, linear(b, "o", feed(b, "x", ffn), hidden), feed(b, "residual", hidden))
			act := b.ActMul("act", linear(b, "gate", n, ffn), linear(b, "up", n, ffn), graph.Silu)
			return b.Add("y", sum, linear(b, "down", act, hidden))
		}, graph.LinearAddNorm, graph.GatedLinear)
	}
	for _, c := range []struct {
		size int
		fn   graph.Fn
	}{{128, graph.Silu}, {64, graph.Sigmoid}, {20, graph.Silu}, {512, graph.Silu}, {256, graph.GeluTanh}, {1024, graph.Silu}} { // the last two are computed one by one
		add(fmt.Sprintf("%s/groups of %d", c.fn, c.size), 1e-5, func(b *graph.Builder) *graph.Value {
			heads := axis("heads", 3, c.size)
			n := b.GroupRMSNorm("n", feed(b, "x", heads), b.Vector("norm", axis("head", 1, c.size)), 1e-5)
			return b.ActMul("y", feed(b, "gate", heads), n, c.fn)
		}, graph.GatedNorm)
	}
	for _, to := range []graph.Type{graph.F8, graph.I8} {
		w := map[graph.Type]string{graph.F8: "w/FP8", graph.I8: "w/INT8"}[to]
		for _, sum := range []bool{false, true} {
			add(fmt.Sprintf("%s/sum %v", to, sum), 2e-2, func(b *graph.Builder) *graph.Value { // a number in the middle between two may be rounded either way
				x, n := feed(b, "x", hidden), (*graph.Value)(nil)
				if sum {
					n = b.Emit("sum", graph.AddNorm{Eps: 1e-5}, []*graph.Value{x, feed(b, "z", hidden)}, b.Vector("norm", hidden))[1]
				} else {
					n = b.RMSNorm("n", x, b.Vector("norm", hidden), 1e-5)
				}
				return b.Linear("y", b.Emit("n8", graph.Quantize{To: to}, []*graph.Value{n})[0], b.Weight(w, ffn, hidden), nil)
			}, graph.NormQuantize)
		}
	}
	outlierLinearCases(add)
	return slices.Concat(all, fusedExpertCases(), fusedAttentionCases(), fusedAdapterCases())
}

// fusedAdapterCases are layers with adapters: some steps have none, some adapters are more than products, and some sequences have two.
func fusedAdapterCases() []Case {
	var all []Case
	hidden, ffn, kv := axis("hidden", 256, 1), axis("ffn", 512, 1), axis("kv", 136, 1)
	for _, given := range []struct {
		name string
		vary func(*backend.Batch, *rand.Rand)
	}{{"", giveAdapters}, {"/none", nil}, {"/two", giveTwoAdapters}} {
		for _, kind := range []string{"products", "products of few ranks", "more"} {
			for _, steps := range append(rowSteps(), Steps{{1, 1, 1, 1, 1}}, Steps{slices.Repeat([]int{1}, 20)}) {
				most := CaseRank
				if kind == "products of few ranks" {
					most = 16
				}
				layers := func(b *graph.Builder, x *graph.Value, outs ...graph.Axis) []*graph.Value {
					in, weights := []*graph.Value{x}, []*graph.Weight(nil)
					for i, out := range outs {
						w := b.Weight(fmt.Sprintf("w%d/BF16", i), out, x.Axis)
						in = append(in, b.Linear(fmt.Sprintf("y%d.base", i), x, w, b.Vector(fmt.Sprintf("bias%d", i), out)))
						weights = append(weights, b.Slots(fmt.Sprintf("%s.y%d.lora", kind, i), w.Tensor, graph.Slots{Of: w, Count: CaseSlots, Rank: most}))
					}
					return b.Emit("y", graph.LoRA{}, in, weights...)
				}
				add := func(what string, columns graph.Axis, g func(b *graph.Builder, x *graph.Value) *graph.Value) {
					all = append(all, Case{
						Name: fmt.Sprintf("AdaptedLinear/%s/%s%s/rows%d of %d", what, kind, given.name, LimitsFor(steps, 16).Tokens, len(steps[0])), Op: "AdaptedLinear", Fuse: []graph.Kind{graph.AdaptedLinear}, Steps: steps, Vary: given.vary, Tolerance: 1e-4,
						Graph: func(b *graph.Builder) *graph.Value { return g(b, feed(b, "x", columns)) },
					})
				}
				add("one", hidden, func(b *graph.Builder, x *graph.Value) *graph.Value { return layers(b, x, ffn)[0] })
				add("three", hidden, func(b *graph.Builder, x *graph.Value) *graph.Value {
					y := layers(b, x, ffn, kv, ffn)
					return b.Add("sum", b.Add("qv", y[0], y[2]), b.Linear("k", y[1], b.Weight("k/BF16", ffn, kv), nil))
				})
				add("gated", hidden, func(b *graph.Builder, x *graph.Value) *graph.Value {
					y := layers(b, x, ffn, ffn)
					return b.ActMul("act", y[0], y[1], graph.Silu)
				})
				if wide := axis("wide", 4096, 1); given.name+kind == "products" && LimitsFor(steps, 16).Tokens > 8 { // what adapters add is a small part of so many columns
					add("three wide", wide, func(b *graph.Builder, x *graph.Value) *graph.Value {
						y := layers(b, x, kv, kv, kv)
						return b.Add("sum", b.Add("qv", y[0], y[2]), y[1])
					})
					add("gated wide", wide, func(b *graph.Builder, x *graph.Value) *graph.Value {
						y := layers(b, x, kv, kv)
						return b.ActMul("act", y[0], y[1], graph.Silu)
					})
				}
			}
		}
	}
	return all
}

// fusedExpertCases are blocks of experts with the sums and norms around them. Rows pass all experts, so that two right answers do not part.
func fusedExpertCases() []Case {
	var all []Case
	for _, f := range []quant.Format{quant.BF16, quant.Q4_0} {
		for _, steps := range rowSteps() {
			all = append(all, Case{
				Name: fmt.Sprintf("MoEAddNorm/%s/rows%d", f, LimitsFor(steps, 16).Tokens), Op: "MoEAddNorm", Fuse: []graph.Kind{graph.AddNormRouter, graph.MoEAddNorm}, Steps: steps, Tolerance: 1e-4,
				Graph: func(b *graph.Builder) *graph.Value {
					hidden, ffn, experts := axis("hidden", 256, 1), axis("ffn", 256, 1), axis("experts", 4, 1)
					out := b.Emit("sum", graph.AddNorm{Eps: 1e-5}, []*graph.Value{feed(b, "x", hidden), feed(b, "z", hidden)}, b.Vector("norm", hidden))
					scores := b.Linear("router", out[1], b.Weight("router/BF16", experts, hidden), b.Vector("router_bias", experts))
					weights := []*graph.Weight{b.Stack("gate/"+f.String(), experts, ffn, hidden), b.Stack("up/"+f.String(), experts, ffn, hidden), b.Stack("down/"+f.String(), experts, hidden, ffn)}
					y := b.MoE("y", out[1], scores, graph.MoE{Experts: 4, TopK: 4}, weights)
					after := b.Emit("after", graph.AddNorm{Eps: 1e-5}, []*graph.Value{out[0], y}, b.Vector("after", hidden))
					return b.Add("both", after[0], after[1])
				},
			})
		}
	}
	return all
}

// fusedAttentionCases rotate queries and keys, normalised head by head or not, store and attend, over several steps.
func fusedAttentionCases() []Case {
	var all []Case
	for _, c := range []struct {
		kind    graph.Kind
		size    int
		pairing graph.Pairing
		steps   Steps
	}{
		{graph.RoPEKVWrite, 64, graph.HalfPairs, Steps{{17, 3, 0}, {1, 40, 2}, {1, 1, 1}}},
		{graph.RoPEAttention, 64, graph.AdjacentPairs, Steps{{1}, {1}, {1}}},
		{graph.RoPEAttention, 128, graph.HalfPairs, Steps{{150, 1}, {1, 1}, {33, 5}, {1, 1}}},
		{graph.HeadNormAttention, 128, graph.HalfPairs, Steps{{70, 3}, {1, 1}, {1, 20}, {1, 1}}},
	} {
		all = append(all, Case{
			Name: fmt.Sprintf("%s/%d/%s", c.kind, c.size, c.pairing), Op: string(c.kind), Fuse: []graph.Kind{c.kind}, Steps: c.steps, Tolerance: 1e-5,
			Graph: func(b *graph.Builder) *graph.Value {
				heads, kv, head := axis("heads", 4, c.size), axis("kv", 2, c.size), axis("head", 1, c.size)
				q, k := feed(b, "q", heads), feed(b, "k", kv)
				if c.kind == graph.HeadNormAttention {
					q, k = b.GroupRMSNorm("q_norm", q, b.Vector("q_norm", head), 1e-6), b.GroupRMSNorm("k_norm", k, b.Vector("k_norm", head), 1e-6)
				}
				r := &graph.Rotation{Name: "angles", Pairing: c.pairing, Dim: c.size, Theta: 10000}
				q, k = b.RoPE("q_rot", q, r), b.RoPE("k_rot", k, r)
				return b.Attention("y", q, b.KVWrite(b.Cache(0, kv, kv, 0), k, feed(b, "v", kv)), graph.Attention{Scale: 0.1})
			},
		})
	}
	return all
}

// outlierLinearCases are layers of rows in eight bits with what the rows' large numbers add: of all numbers, of some, and of none.
func outlierLinearCases(add func(name string, tolerance float64, g func(b *graph.Builder) *graph.Value, kinds ...graph.Kind)) {
	hidden, ffn := axis("hidden", 256, 1), axis("ffn", 512, 1)
	for _, threshold := range []float64{0.1, 2, 100} {
		layers := func(b *graph.Builder, outs ...string) (sums []*graph.Value) {
			x := b.Scale("scaled", feed(b, "x", hidden), 0.9) // rows that a node makes
			x8 := b.Emit("x8", graph.Quantize{To: graph.I8, Below: threshold}, []*graph.Value{x})[0]
			for _, name := range outs {
				w := b.Weight("w_"+name+"/INT8", ffn, hidden)
				y := b.Linear(name, x8, w, b.Vector("bias_"+name, ffn))
				sums = append(sums, b.Emit(name+".whole", graph.AddOutliers{Threshold: threshold}, []*graph.Value{y, x}, w)[0])
			}
			return sums
		}
		add(fmt.Sprintf("%g", threshold), 1e-5, func(b *graph.Builder) *graph.Value {
			y := layers(b, "q", "k", "v")
			return b.Add("y", b.Add("qk", y[0], y[1]), y[2])
		}, graph.OutlierLinear)
		add(fmt.Sprintf("%g/one", threshold), 1e-5, func(b *graph.Builder) *graph.Value { return layers(b, "q")[0] }, graph.OutlierLinear)
		add(fmt.Sprintf("%g/gated", threshold), 1e-5, func(b *graph.Builder) *graph.Value {
			y := layers(b, "gate", "up")
			return b.ActMul("y", y[0], y[1], graph.Silu)
		}, graph.OutlierLinear)
	}
}
