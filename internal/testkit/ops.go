package testkit

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Case is one op in one variant: a graph that feeds it random rows, the steps to run, and how far a device may be
// from the reference. The table of cases is what every backend is tested and timed with.
type Case struct {
	Name      string
	Op        string // what it is a case of: graph.Op.Name
	Graph     func(b *graph.Builder) *graph.Value
	Steps     Steps
	Window    int          // of its cache: the batches' tables are rolled; 0: none
	Tolerance float64      // WorstError against the reference, computing in F32
	Fuse      []graph.Kind // what of the graph is fused
	// Vary changes a batch, its table aside, before it is run; nil: nothing.
	Vary func(b *backend.Batch, rnd *rand.Rand)
}

// Attends reports whether it is a case of attention, which is tried with every type of cache.
func (c *Case) Attends() bool {
	return strings.HasSuffix(c.Op, "Attention") || c.Op == string(graph.RoPEKVWrite)
}

const tableVocab = 61

// feed looks random rows of an axis up by token id; each name has its own.
func feed(b *graph.Builder, name string, a graph.Axis) *graph.Value {
	return b.Embed(name, b.Weight(name+"_embd", graph.Axis{Name: "vocab", Count: tableVocab, Size: 1}, a), 0)
}

func axis(name string, count, size int) graph.Axis {
	return graph.Axis{Name: name, Count: count, Size: size}
}

// rowSteps are row counts around every kernel's tile sizes.
func rowSteps() []Steps {
	return []Steps{{{1}}, {{2}}, {{5, 3}}, {{33}}, {{70, 1}}}
}

// Cases is the table.
func Cases() []Case {
	var all []Case
	all = append(all, linearCases()...)
	all = append(all, roundedCases()...)
	all = append(all, scaledCases()...)
	all = append(all, groupCases()...)
	all = append(all, rowCases()...)
	all = append(all, streamCases()...)
	all = append(all, attentionCases()...)
	all = append(all, latentCases()...)
	all = append(all, batchCases()...)
	all = append(all, routeCases()...)
	all = append(all, moeCases()...)
	all = append(all, recurrentCases()...)
	all = append(all, fusedCases()...)
	all = append(all, loraCases()...)
	all = append(all, latentTreeCases()...)
	all = append(all, largeHeadCases()...)
	return all
}

// checkpointFormats are those that only checkpoints of the Hugging Face hub have.
var checkpointFormats = []quant.Format{quant.UINT4, quant.UINT8, quant.FP8_BLOCK, quant.NF4, quant.FP4, quant.NVFP4_ROW}

// linearCases multiply with every weight format, with and without bias, at odd sizes; block formats with float inputs
// and with quantised ones.
func linearCases() []Case {
	var all []Case
	for _, f := range append(quant.ReadFormats(), checkpointFormats...) {
		for _, size := range []struct{ out, in int }{{2, 256}, {37, 512}, {130, 768}, {70, 288}} {
			if size.in%f.Block() != 0 {
				continue
			}
			for i, steps := range rowSteps() {
				odd := size.in%64 != 0 // enough of in floats, and for some numbers of rows
				if odd && i%2 != 0 {
					continue
				}
				for _, quantised := range []bool{false, true}[:min(f.Block(), 2)] {
					if quantised && (odd || f.Descriptor().FloatCodes) {
						continue
					}
					c := Case{Name: fmt.Sprintf("Linear/%s/%dx%d/rows%d", f, size.out, size.in, LimitsFor(steps, 16).Tokens), Op: "Linear", Steps: steps, Tolerance: 1e-5}
					if quantised {
						c.Name += "/q8"
					}
					c.Graph = func(b *graph.Builder) *graph.Value {
						out, x := axis("out", size.out, 1), feed(b, "x", axis("in", size.in, 1))
						var bias *graph.Weight
						if i%2 == 0 {
							bias = b.Vector("bias", out)
						}
						if quantised {
							x = b.Emit("x8", graph.Quantize{To: graph.Q8}, []*graph.Value{x})[0]
						}
						return b.Linear("y", x, b.Weight("w/"+f.String(), out, axis("in", size.in, 1)), bias)
					}
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// roundedCases multiply BF16 weights with inputs rounded to BF16. A device may keep the inputs as they are where that is
// no slower, so the tolerance is what the rounding loses.
func roundedCases() []Case {
	var all []Case
	for _, steps := range rowSteps() {
		all = append(all, Case{
			Name: fmt.Sprintf("Linear/BF16 rounded/rows%d", LimitsFor(steps, 16).Tokens), Op: "Linear", Steps: steps, Tolerance: 4e-3,
			Graph: func(b *graph.Builder) *graph.Value {
				w := b.Weight("w/BF16", axis("out", 70, 1), axis("in", 512, 1))
				return b.Emit("y", graph.Linear{ActType: graph.BF16}, []*graph.Value{feed(b, "x", axis("in", 512, 1))}, w)[0]
			},
		})
	}
	return all
}

// scaledCases multiply weights in FP8 and INT8, with inputs in floats and with inputs rounded as the weights are.
func scaledCases() []Case {
	var all []Case
	for _, f := range []quant.Format{quant.FP8, quant.INT8} {
		for _, size := range []struct{ out, in int }{{2, 256}, {37, 512}, {136, 784}} {
			for i, steps := range rowSteps() {
				for _, rounded := range []bool{false, true} {
					c := Case{Name: fmt.Sprintf("Linear/%s/%dx%d/rows%d", f, size.out, size.in, LimitsFor(steps, 16).Tokens), Op: "Linear", Steps: steps, Tolerance: 1e-5}
					if rounded {
						c.Name += "/rounded"
					}
					c.Graph = func(b *graph.Builder) *graph.Value {
						out, x := axis("out", size.out, 1), feed(b, "x", axis("in", size.in, 1))
						var bias *graph.Weight
						if i%2 == 0 {
							bias = b.Vector("bias", out)
						}
						if rounded {
							x = b.Emit("x8", graph.Quantize{To: graph.ScaledRows(f)}, []*graph.Value{x})[0]
						}
						return b.Linear("y", x, b.Weight("w/"+f.String(), out, axis("in", size.in, 1)), bias)
					}
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// groupCases multiply weights in INT4 with inputs in floats.
func groupCases() []Case {
	var all []Case
	for _, size := range []struct{ out, in int }{{2, 256}, {37, 512}, {136, 640}} {
		for i, steps := range rowSteps() {
			all = append(all, Case{
				Name: fmt.Sprintf("Linear/INT4/%dx%d/rows%d", size.out, size.in, LimitsFor(steps, 16).Tokens), Op: "Linear", Steps: steps, Tolerance: 1e-5,
				Graph: func(b *graph.Builder) *graph.Value {
					out, in := axis("out", size.out, 1), axis("in", size.in, 1)
					var bias *graph.Weight
					if i%2 == 0 {
						bias = b.Vector("bias", out)
					}
					return b.Linear("y", feed(b, "x", in), b.Weight("w/INT4", out, in), bias)
				},
			})
		}
	}
	return all
}

// perRows is an op with each number of rows.
func perRows(op, name string, tolerance float64, g func(b *graph.Builder) *graph.Value) []Case {
	var all []Case
	for _, steps := range rowSteps() {
		all = append(all, Case{Name: fmt.Sprintf("%s/rows%d", name, LimitsFor(steps, 16).Tokens), Op: op, Graph: g, Steps: steps, Tolerance: tolerance})
	}
	return all
}

// rowCases are the ops that treat rows one by one.
func rowCases() []Case {
	hidden, heads := axis("hidden", 96, 1), axis("heads", 3, 32)
	make1 := perRows
	var all []Case
	all = append(all, make1("Embed", "Embed/ids", 1e-6, func(b *graph.Builder) *graph.Value {
		return b.Embed("e", b.Weight("t_embd/Q8_0", axis("vocab", tableVocab, 1), hidden), 3.5)
	})...)
	all = append(all, make1("Embed", "Embed/known", 1e-6, func(b *graph.Builder) *graph.Value { // beside the input; some ids have no row
		x := feed(b, "x", hidden)
		return b.Add("y", x, b.EmbedKnown("e", b.Weight("t_embd", axis("tokens", tableVocab-20, 1), hidden), 3.5))
	})...)
	all = append(all, make1("Embed", "Embed/positions", 1e-6, func(b *graph.Builder) *graph.Value {
		return b.EmbedPosition("e", b.Weight("t_embd", axis("positions", 80, 1), hidden))
	})...)
	for _, types := range []int{1, 2} {
		all = append(all, make1("Embed", fmt.Sprintf("Embed/segment of %d", types), 1e-6, func(b *graph.Builder) *graph.Value {
			return b.EmbedSegment("e", b.Weight("t_embd", axis("types", types, 1), hidden))
		})...)
	}
	all = append(all, make1("RMSNorm", "RMSNorm", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.RMSNorm("y", feed(b, "x", hidden), b.Vector("norm", hidden), 1e-6)
	})...)
	all = append(all, make1("RMSNorm", "RMSNorm/heads", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.GroupRMSNorm("y", feed(b, "x", heads), b.Vector("norm", axis("head", 1, 32)), 1e-6)
	})...)
	all = append(all, make1("RMSNorm", "RMSNorm/groups", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.Emit("y", graph.RMSNorm{Eps: 1e-6, Groups: 3}, []*graph.Value{feed(b, "x", heads)}, b.Vector("norm", heads))[0]
	})...)
	all = append(all, make1("LayerNorm", "LayerNorm", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.LayerNorm("y", feed(b, "x", hidden), b.Vector("norm", hidden), b.Vector("bias", hidden), 1e-5)
	})...)
	for _, r := range []graph.Rotation{
		{Name: "a", Pairing: graph.HalfPairs, Dim: 32, Theta: 10000},
		{Name: "a", Pairing: graph.AdjacentPairs, Dim: 32, Theta: 500},
		{Name: "a", Pairing: graph.HalfPairs, Dim: 20, Theta: 10000},
		{Name: "a", Pairing: graph.HalfPairs, Dim: 32, Theta: 10000, Scaling: graph.Scaling{Kind: graph.DynamicScaling, Factor: 2, OrigContext: 8}},
	} {
		all = append(all, make1("RoPE", fmt.Sprintf("RoPE/%s/%d/%s", r.Pairing, r.Dim, r.Scaling.Kind), 1e-5, func(b *graph.Builder) *graph.Value {
			return b.RoPE("y", feed(b, "x", heads), &r)
		})...)
	}
	all = append(all, make1("Linear", "Linear/F32/1x96", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.Linear("y", feed(b, "x", hidden), b.Weight("w", axis("gate", 1, 1), hidden), b.Vector("bias", axis("gate", 1, 1)))
	})...)
	all = append(all, make1("RoPE", "RoPE/from 20", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.RoPEFrom("y", feed(b, "x", heads), &graph.Rotation{Name: "a", Pairing: graph.AdjacentPairs, Dim: 12, Theta: 500}, 20)
	})...)
	for _, f := range []quant.Format{quant.F32, quant.BF16, quant.Q8_0} {
		for _, rest := range []int{0, 8} {
			all = append(all, make1("HeadLinear", fmt.Sprintf("HeadLinear/%s/rest%d", f, rest), 1e-5, func(b *graph.Builder) *graph.Value {
				w := b.Stack("w/"+f.String(), axis("heads", 3, 1), axis("rank", 72, 1), axis("in", 32, 1))
				return b.HeadLinear("y", feed(b, "x", axis("heads", 3, 32+rest)), w, rest)
			})...)
		}
	}
	for _, fn := range []graph.Fn{graph.Silu, graph.GeluTanh, graph.GeluErf, graph.Relu, graph.Relu2, graph.Sigmoid, graph.Identity} {
		all = append(all, make1("Act", "Act/"+fn.String(), 1e-5, func(b *graph.Builder) *graph.Value {
			return b.Act("y", feed(b, "x", hidden), fn)
		})...)
		all = append(all, make1("ActMul", "ActMul/"+fn.String(), 1e-5, func(b *graph.Builder) *graph.Value {
			return b.ActMul("y", feed(b, "gate", hidden), feed(b, "up", hidden), fn)
		})...)
	}
	all = append(all, make1("AddNorm", "AddNorm/sum", 1e-6, func(b *graph.Builder) *graph.Value {
		return b.Emit("y", graph.AddNorm{Eps: 1e-6}, []*graph.Value{feed(b, "x", hidden), feed(b, "z", hidden)}, b.Vector("norm", hidden))[0]
	})...)
	all = append(all, make1("AddNorm", "AddNorm/norm", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.Emit("y", graph.AddNorm{Eps: 1e-6}, []*graph.Value{feed(b, "x", hidden), feed(b, "z", hidden)}, b.Vector("norm", hidden))[1]
	})...)
	all = append(all, make1("Add", "Add", 1e-6, func(b *graph.Builder) *graph.Value {
		return b.Add("y", feed(b, "x", hidden), feed(b, "z", hidden))
	})...)
	all = append(all, make1("Softcap", "Softcap", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.Softcap("y", feed(b, "x", hidden), 1.5)
	})...)
	all = append(all, make1("Scale", "Scale", 1e-6, func(b *graph.Builder) *graph.Value {
		return b.Scale("y", feed(b, "x", axis("hidden", 1157, 1)), 0.22)
	})...)
	all = append(all, make1("Scale", "Scale/by position", 1e-6, func(b *graph.Builder) *graph.Value {
		return b.ScaleByPosition("y", feed(b, "x", heads), graph.Growth{Beta: 0.3, Every: 7, From: 1})
	})...)
	all = append(all, make1("XIELU", "XIELU", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.XIELU("y", feed(b, "x", hidden), graph.XIELU{Positive: 1.3, Negative: 1.1, Beta: 0.5, Eps: -1e-6})
	})...)
	all = append(all, make1("GateRows", "GateRows", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.GateRows("y", feed(b, "x", hidden), feed(b, "gate", axis("gate", 1, 1)))
	})...)
	all = append(all, make1("GateRows", "GateRows/largest of 5", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.GateRows("y", feed(b, "x", hidden), feed(b, "gate", axis("experts", 5, 1)))
	})...)
	all = append(all, make1("SelectRows", "SelectRows/odd", 0, func(b *graph.Builder) *graph.Value {
		return b.SelectRows("y", feed(b, "x", axis("hidden", 33, 1)))
	})...)
	all = append(all, make1("SelectRows", "SelectRows", 0, func(b *graph.Builder) *graph.Value {
		return b.SelectRows("y", feed(b, "x", hidden))
	})...)
	return all
}

// attentionCases write keys and values over several steps and look back at them: all head groupings, sizes, windows of rolled tables
// and caps, sequences that start at different times, contexts across tiles and pages.
func attentionCases() []Case {
	var all []Case
	steps := []Steps{
		{{1}, {1}, {1}},
		{{17, 3, 0}, {1, 40, 2}, {1, 1, 1}},
		{{150, 1}, {1, 1}, {33, 5}},
		{{530, 3}, {1, 260}, {3, 1}, {40, 40}, {40, 40}}, // far enough for a device to cut the keys
	}
	for _, h := range []struct{ heads, kv, size int }{{4, 4, 16}, {8, 2, 64}, {6, 1, 80}, {4, 2, 128}, {2, 1, 256}, {4, 4, 96}, {1, 1, 320}} {
		for _, window := range []int{0, 9, 70} {
			for i, s := range steps {
				if i == 3 && h.size != 16 || h.size > 256 && (i != 1 || window > 0) {
					continue // the reference takes its time
				}
				limit := float64(0)
				if i == 1 {
					limit = 2
				}
				all = append(all, Case{
					Name: fmt.Sprintf("Attention/%d:%dx%d/window%d/steps%d", h.heads, h.kv, h.size, window, i), Op: "Attention", Steps: s, Window: window, Tolerance: 1e-5,
					Graph: func(b *graph.Builder) *graph.Value {
						kv := axis("kv", h.kv, h.size)
						cache := b.Cache(0, kv, kv, window)
						cache = b.KVWrite(cache, feed(b, "k", kv), feed(b, "v", kv))
						return b.Attention("y", feed(b, "q", axis("heads", h.heads, h.size)), cache, graph.Attention{Scale: 0.2, Softcap: limit})
					},
				})
			}
		}
	}
	for i, s := range steps {
		all = append(all, Case{
			Name: fmt.Sprintf("Attention/sinks/steps%d", i), Op: "Attention", Steps: s, Window: 130 * (i % 2), Tolerance: 1e-5,
			Graph: func(b *graph.Builder) *graph.Value {
				kv := axis("kv", 2, 16)
				cache := b.KVWrite(b.Cache(0, kv, kv, 130*(i%2)), feed(b, "k", kv), feed(b, "v", kv))
				q, sinks := feed(b, "q", axis("heads", 6, 16)), b.Vector("sinks", axis("heads", 6, 1))
				return b.Attention("y", q, cache, graph.Attention{Scale: 0.2}, sinks)
			},
		})
	}
	for _, h := range []struct{ heads, kv, size int }{{16, 2, 64}, {6, 1, 80}, {6, 2, 96}, {4, 2, 128}, {2, 1, 256}} {
		for _, both := range []bool{false, true} {
			window, limit, s := 70, 2.0, steps[2]
			if both {
				window, s = 0, Steps{{150, 1, 20}}
			}
			if h.size == 64 {
				limit = 0
			}
			all = append(all, Case{
				Name: fmt.Sprintf("Attention/sinks/%d:%dx%d/both %v", h.heads, h.kv, h.size, both), Op: "Attention", Steps: s, Window: window, Tolerance: 1e-5,
				Graph: func(b *graph.Builder) *graph.Value {
					kv := axis("kv", h.kv, h.size)
					cache := b.KVWrite(b.Cache(0, kv, kv, window), feed(b, "k", kv), feed(b, "v", kv))
					q, sinks := feed(b, "q", axis("heads", h.heads, h.size)), b.Vector("sinks", axis("heads", h.heads, 1))
					return b.Attention("y", q, cache, graph.Attention{Scale: 0.2, Softcap: limit, Bidirectional: both}, sinks)
				},
			})
		}
	}
	all = append(all, maskCases(steps)...)
	for i, s := range []Steps{{{1, 17}}, {{40, 530, 3}}} {
		all = append(all, Case{
			Name: fmt.Sprintf("Attention/both/steps%d", i), Op: "Attention", Steps: s, Tolerance: 1e-5,
			Graph: func(b *graph.Builder) *graph.Value {
				kv := axis("kv", 4, 16)
				cache := b.KVWrite(b.Cache(0, kv, kv, 0), feed(b, "k", kv), feed(b, "v", kv))
				return b.Attention("y", feed(b, "q", kv), cache, graph.Attention{Scale: 0.2, Bidirectional: true})
			},
		})
	}
	return all
}

// maskCases look no further back than the chunk of a query, or no further than so many keys either way.
func maskCases(steps []Steps) []Case {
	var all []Case
	for _, h := range []struct{ heads, kv, size int }{{4, 4, 16}, {8, 2, 64}, {4, 2, 128}} {
		for _, chunk := range []int{32, 100} {
			for i, s := range steps[:3] {
				all = append(all, Case{
					Name: fmt.Sprintf("Attention/chunks of %d/%d:%dx%d/steps%d", chunk, h.heads, h.kv, h.size, i), Op: "Attention", Steps: s, Window: chunk, Tolerance: 1e-5,
					Graph: func(b *graph.Builder) *graph.Value {
						kv := axis("kv", h.kv, h.size)
						cache := b.KVWrite(b.Cache(0, kv, kv, chunk), feed(b, "k", kv), feed(b, "v", kv))
						return b.Attention("y", feed(b, "q", axis("heads", h.heads, h.size)), cache, graph.Attention{Scale: 0.2, Chunked: true})
					},
				})
			}
		}
		for i, s := range []Steps{{{1, 17}}, {{40, 230, 3}}} {
			all = append(all, Case{
				Name: fmt.Sprintf("Attention/within 8/%d:%dx%d/steps%d", h.heads, h.kv, h.size, i), Op: "Attention", Steps: s, Tolerance: 1e-5,
				Graph: func(b *graph.Builder) *graph.Value {
					kv := axis("kv", h.kv, h.size)
					cache := b.KVWrite(b.Cache(0, kv, kv, 0), feed(b, "k", kv), feed(b, "v", kv))
					return b.Attention("y", feed(b, "q", axis("heads", h.heads, h.size)), cache, graph.Attention{Scale: 0.2, Bidirectional: true, Reach: 8})
				},
			})
		}
	}
	return all
}

// Built is a case's graph. cache is the type of keys and values.
func (c Case) Built(act, cache graph.Type) (*graph.Graph, error) {
	b := graph.NewBuilder(c.Name, Lookup, act, cache)
	g, err := b.Finish(c.Graph(b))
	if err != nil || len(c.Fuse) == 0 {
		return g, err
	}
	return c.fuse(g)
}

// Build makes a case's graph, weights, limits and batches.
func (c Case) Build(act, cache graph.Type, seed uint64) (*graph.Graph, Weights, backend.Limits, []*backend.Batch, error) {
	lim := LimitsFor(c.Steps, 16)
	g, err := c.Built(act, cache)
	if err != nil {
		return nil, nil, lim, nil, err
	}
	lim.KeepAll(g)
	w, err := RandomWeights(g, seed)
	return g, w, lim, c.Batches(lim, seed), err
}

// Batches are a case's steps with random tokens. Positions of attention are not the tokens' places in their sequences: they are for
// rotations, and must not decide which keys a row looks at.
func (c Case) Batches(lim backend.Limits, seed uint64) []*backend.Batch {
	batches := Sequence(c.Steps, lim, tableVocab, false, seed)
	for _, b := range batches {
		for r := range b.Positions {
			if c.Op == "Attention" {
				b.Positions[r] = b.Positions[r]*3 + 1000
			}
		}
	}
	if c.Window > 0 {
		Roll(batches, lim, c.Window)
	}
	if c.Vary != nil {
		rnd := rand.New(rand.NewPCG(seed, 3))
		for _, b := range batches {
			c.Vary(b, rnd)
		}
	}
	return batches
}
