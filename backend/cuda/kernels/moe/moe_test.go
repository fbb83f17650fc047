package moe

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

func TestMirrors(t *testing.T) {
	gputest.Mirrors(t, "moe/moe", map[string]uintptr{
		"route_": unsafe.Sizeof(routeParams{}), "align_slots": unsafe.Sizeof(routeParams{}), "permute": unsafe.Sizeof(permuteParams{}), "combine_f32": unsafe.Sizeof(combineParams{}),
		"combine_bf16": unsafe.Sizeof(combineParams{}), "combine_norm": unsafe.Sizeof(combineNormParams{}), "router_norm": unsafe.Sizeof(RouterNormParams{}),
		"simt_": unsafe.Sizeof(simtParams{}), "gated_activation_": unsafe.Sizeof(activationParams{}),
	})
	gputest.Mirrors(t, "moe/shares", map[string]uintptr{"route_shares_": unsafe.Sizeof(SharesParams{}), "gate_rows_": unsafe.Sizeof(GateRowsParams{})})
	gemm, sm90 := unsafe.Sizeof(groupedGemmParams{}), unsafe.Sizeof(groupedGemmSM90Params{})
	for f, module := range modules {
		kernels := map[string]uintptr{"gated": gemm, "down": gemm, "gated256": sm90, "down256": sm90, "single_row_": unsafe.Sizeof(singleRowParams{})}
		if f != quant.BF16 {
			kernels["gemv_"] = unsafe.Sizeof(groupedGemvParams{})
		}
		gputest.Mirrors(t, module.name, kernels)
	}
}

// room allocates the routing of so many rows.
func room(g *gputest.GPU, o graph.MoE, rows int) Slots {
	n := 4 * rows * o.TopK
	return Slots{
		Chosen: g.Poisoned(n), Share: g.Poisoned(n), Slot: g.Poisoned(n), Row: g.Poisoned(n),
		First: g.Poisoned(4 * (o.Experts + 1)), Total: g.Poisoned(4), Jobs: g.Poisoned(JobBytes * Jobs(o, rows, LeastEach)),
	}
}

// routing is the expected result of the router: each row's experts and shares, and each expert's rows.
type routing struct {
	chosen [][]int
	shares []float64
	rows   [][]int
}

func referenceRouting(scores []float32, o graph.MoE) routing {
	d := routing{rows: make([][]int, o.Experts)}
	for r := range len(scores) / o.Experts {
		row := scores[r*o.Experts : (r+1)*o.Experts]
		order := make([]int, o.Experts)
		for e := range order {
			order[e] = e
		}
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case row[a] > row[b]:
				return -1
			case row[a] < row[b]:
				return 1
			}
			return 0
		})
		sum := 0.0
		for k, e := range order {
			if k < o.TopK || o.NoRenorm {
				sum += math.Exp(float64(row[e] - row[order[0]]))
			}
		}
		for _, e := range order[:o.TopK] {
			d.shares = append(d.shares, math.Exp(float64(row[e]-row[order[0]]))/sum)
			d.rows[e] = append(d.rows[e], r)
		}
		d.chosen = append(d.chosen, order[:o.TopK])
	}
	return d
}

// ints reads whole numbers back.
func ints(g *gputest.GPU, p driver.Ptr, n int) []int {
	var x []int
	for _, v := range g.ReadF32(p, n) {
		x = append(x, int(math.Float32bits(v)))
	}
	return x
}

// TestRouter: of equal scores the first, and rows beyond the step's count are left alone. With -short, as the sanitizer has it, few rows.
func TestRouter(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, o := range []graph.MoE{{Experts: 8, TopK: 2}, {Experts: 128, TopK: 8}, {Experts: 33, TopK: 33}, {Experts: 1000, TopK: 5, NoRenorm: true}, {Experts: 1, TopK: 1}} {
			for _, rows := range []int{1, 5, oneBlockRows, 77, 700} {
				if testing.Short() && rows > 77 {
					continue
				}
				for _, each := range []int{8, 64} {
					g.Scope(func() { against(g, o, rows, each) })
				}
			}
		}
	})
}

func against(g *gputest.GPU, o graph.MoE, rows, each int) {
	const more = 3 // rows that the launch is for, beyond those of the step
	what := fmt.Sprintf("%v, %d rows", o, rows)
	scores := g.Random(rows*o.Experts, 1)
	for i := range scores { // many of them equal
		scores[i] = float32(math.Round(float64(scores[i])*16) / 16)
	}
	want, s := referenceRouting(scores, o), room(g, o, rows+more)
	r, err := NewRouter(g.Loader, graph.BF16, g.BF16(append(scores, make([]float32, more*o.Experts)...)), o, kernels.CountLogits, s)
	g.Must(err)
	g.Must(r.Launch(g.Stream, &kernels.Step{Counts: g.Ints(0, 0, int32(rows))}, rows+more, each))
	g.Near(what, g.ReadF32(s.Share, rows*o.TopK), want.shares, 1e-6)
	var chosen, first, jobs, row []int
	slots := make([]int, rows*o.TopK)
	for r := range rows {
		chosen = append(chosen, want.chosen[r]...)
	}
	for e, of := range want.rows {
		from, before := len(row), len(jobs)/4
		first = append(first, from)
		for _, r := range of {
			slots[r*o.TopK+slices.Index(want.chosen[r], e)] = len(row)
			row = append(row, r)
		}
		for range (len(of) + each - 1) / each {
			jobs = append(jobs, e, before, from, len(row))
		}
	}
	first = append(first, len(row))
	if most := Jobs(o, rows, each); len(jobs)/4 > most {
		g.Errorf("%s: %d jobs, more than the %d that Jobs allows", what, len(jobs)/4, most)
	}
	for _, c := range []struct {
		name string
		at   driver.Ptr
		want []int
	}{{"experts", s.Chosen, chosen}, {"slots", s.Slot, slots}, {"rows", s.Row, row}, {"first slots", s.First, first}, {"how many jobs", s.Total, []int{len(jobs) / 4}}, {"jobs", s.Jobs, jobs}} {
		if got := ints(g, c.at, len(c.want)); !slices.Equal(got, c.want) {
			g.Fatalf("%s: %s are %v and should be %v", what, c.name, got, c.want)
		}
	}
}

// TestBlock compares whole blocks with plain Go, in every format, for jobs of every size.
func TestBlock(t *testing.T) {
	gputest.Run(t, func(g *gputest.GPU) {
		for _, f := range []quant.Format{quant.BF16, quant.Q4_0, quant.Q4_K, quant.Q8_0, quant.Q6_K, quant.MXFP4} {
			g.Sub(f.String(), func(g *gputest.GPU) {
				for _, c := range []struct {
					o             graph.MoE
					rows, in, ffn int
				}{
					{graph.MoE{Experts: 8, TopK: 2}, 1, 512, 256}, {graph.MoE{Experts: 8, TopK: 3}, 9, 768, 256}, {graph.MoE{Experts: 4, TopK: 2, Biased: true, Clamp: 1}, 40, 256, 768},
					{graph.MoE{Experts: 3, TopK: 1, Fn: graph.GeluTanh}, 150, 512, 256}, {graph.MoE{Experts: 6, TopK: 3, NoRenorm: true}, 150, 512, 256},
					{graph.MoE{Experts: 150, TopK: 5, Biased: true, Clamp: 7, NoRenorm: true}, 2, 64, 96}, {graph.MoE{Experts: 4, TopK: 2, Biased: true, Clamp: 2}, 500, 256, 256},
					{graph.MoE{Experts: 5, TopK: 2}, 700, 320, 96}, {graph.MoE{Experts: 12, TopK: 4, Biased: true, Clamp: 7}, 5, 1056, 352},
					{graph.MoE{Experts: 40, TopK: 8, NoRenorm: true}, 10, 512, 768}, {graph.MoE{Experts: 9, TopK: 3}, 2, 256, 2304},
					{graph.MoE{Experts: 8, TopK: 3, Fn: graph.Relu}, 3, 512, 256}, {graph.MoE{Experts: 5, TopK: 2, Fn: graph.Relu}, 20, 256, 768},
					{graph.MoE{Experts: 4, TopK: 2, Fn: graph.Relu, NoRenorm: true}, 600, 320, 256},
				} {
					if c.ffn%f.Block() != 0 || c.in%f.Block() != 0 {
						continue
					}
					g.Scope(func() { block(g, f, c.o, c.rows, c.in, c.ffn) })
				}
			})
		}
	})
}

// stack is matrices of all experts on the device, as pack makes them of one or two of each, and their numbers.
func stack(g *gputest.GPU, f quant.Format, experts, each, rows, cols int) (driver.Ptr, [][]float32) {
	var all []byte
	var plain [][]float32
	for range experts {
		w, x := matrix(g, g.Rand, f, rows, cols)
		plain = append(plain, x)
		if each == 1 {
			n, bytes := Panels(w)
			packed := make([]byte, n*bytes)
			Pack(packed, w, StoredFormat(f), 0, n)
			all = append(all, packed...)
			continue
		}
		up, y := matrix(g, g.Rand, f, rows, cols)
		plain = append(plain, y)
		packed := make([]byte, Bytes(StoredFormat(f), 2*rows, cols))
		PackInterleaved(packed, w, up, StoredFormat(f), 0, (2*rows+panelRows-1)/panelRows)
		all = append(all, packed...)
	}
	return g.Bytes(all), plain
}

func block(g *gputest.GPU, f quant.Format, o graph.MoE, rows, in, ffn int) {
	x, scores := g.Random(rows*in, 1), g.Random(rows*o.Experts, 1)
	s, route := room(g, o, rows), referenceRouting(scores, o)
	squared, matrices := o.Fn == graph.Relu, 2
	if squared {
		matrices = 1
	}
	gate, gates := stack(g, f, o.Experts, matrices, ffn, in)
	down, downs := stack(g, f, o.Experts, 1, in, ffn)
	biases := [3][]float32{g.Random(o.Experts*ffn, 1), g.Random(o.Experts*ffn, 1), g.Random(o.Experts*in, 1)}
	results := g.Poisoned(2 * rows * o.TopK * in)
	first := Product{X: g.BF16(x), Permuted: results, W: gate, Gated: !squared, Squared: squared, Y: g.Poisoned(2 * rows * o.TopK * ffn), N: ffn, K: in, Slots: rows * o.TopK, Format: StoredFormat(f)}
	last := Product{X: first.Y, BySlot: true, W: down, Y: results, N: in, K: ffn, Slots: rows * o.TopK, Format: StoredFormat(f)}
	if o.Biased {
		first.Bias, first.UpBias, last.Bias = g.F32(biases[0]), g.F32(biases[1]), g.F32(biases[2])
	} else {
		clear(biases[0])
		clear(biases[1])
		clear(biases[2])
	}
	y := g.Poisoned(2 * rows * in)
	step := &kernels.Step{Counts: g.Ints(int32(rows), 0, 0)}
	router, err := NewRouter(g.Loader, graph.BF16, g.BF16(scores), o, kernels.CountTokens, s)
	g.Must(err)
	gated, err := NewGroupedGemm(g.Loader, first, o, s)
	g.Must(err)
	one, err := NewGroupedGemm(g.Loader, last, o, s)
	g.Must(err)
	permuter, err := NewPermuter(g.Loader, first.X, first.Permuted, in, o, s)
	g.Must(err)
	sum, err := NewCombine(g.Loader, graph.BF16, last.Y, y, in, o, kernels.CountTokens, s)
	g.Must(err)
	each := Each(o, StoredFormat(f), rows, HasSM90(g.Loader, o, ffn, in) && HasSM90(g.Loader, o, in, ffn))
	g.Must(router.Launch(g.Stream, step, rows, each))
	if each > MaxUnpermuted {
		g.Must(permuter.Launch(g.Stream, rows*o.TopK))
	}
	g.Must(gated.Launch(g.Stream, rows, each))
	g.Must(one.Launch(g.Stream, rows, each))
	g.Must(sum.Launch(g.Stream, step, rows, false))
	want := referenceBlock(o, route, x, gates, downs, biases, in, ffn)
	what := fmt.Sprintf("%s, %v, %d rows, %d × %d", f, o, rows, in, ffn)
	g.Near(what, g.ReadBF16(y, rows*in), want, 1e-2)
	for _, sms := range []int{g.Loader.SMs(), 3} { // with so few blocks each has many iterations
		if rows > MaxGemvRows(g.Loader, o, first, last) {
			break
		}
		gemv, err := NewGroupedGemv(g.Loader, graph.BF16, router.p.Scores, first, last, o, kernels.CountTokens, s.Share)
		g.Must(err)
		gemv.gated.sms, gemv.down.sms = sms, sms
		g.Must(g.Stream.Fill(first.Y, 0xff, int64(2*rows*o.TopK*ffn)))
		g.Must(g.Stream.Fill(results, 0xff, int64(2*rows*o.TopK*in)))
		g.Must(g.Stream.Fill(y, 0xff, int64(2*rows*in)))
		g.Must(g.Stream.Fill(s.Share, 0xff, int64(4*rows*o.TopK)))
		g.Must(gemv.Launch(g.Stream, step, rows))
		g.Must(sum.Launch(g.Stream, step, rows, true))
		g.Near(fmt.Sprintf("%s, gemv, %d blocks", what, sms), g.ReadBF16(y, rows*in), want, 1e-2)
	}
	if rows > 4 || squared {
		return
	}
	if MaxSingleRows(g.Loader, o, first, last) == 0 {
		g.Fatalf("%s: SingleRow does not take the products", what)
	}
	y = g.Poisoned(2 * rows * in)
	residual := g.Random(rows*in, 1)
	single, err := NewSingleRow(g.Loader, graph.BF16, g.BF16(scores), first, last, y, g.BF16(residual), o)
	g.Must(err)
	for i, v := range residual {
		want[i] += float64(v)
	}
	g.Must(g.Stream.Fill(first.Y, 0xff, int64(2*rows*o.TopK*ffn)))
	g.Must(single.Launch(g.Stream, rows))
	g.Near(what+", single row", g.ReadBF16(y, rows*in), want, 1e-2)
}

// referenceBlock is a block's results in plain Go, [rows][in], of inputs x [rows][in]; biases are of gates, of ups and of downs.
func referenceBlock(o graph.MoE, route routing, x []float32, gates, downs [][]float32, biases [3][]float32, in, ffn int) []float64 {
	rows := len(x) / in
	want := make([]float64, rows*in)
	for r := range rows {
		for k, e := range route.chosen[r] {
			activated := make([]float32, ffn)
			for i := range activated {
				if o.Fn == graph.Relu {
					above := max(0, dot(x[r*in:(r+1)*in], gates[e][i*in:]))
					activated[i] = float32(above * above)
					continue
				}
				a := dot(x[r*in:(r+1)*in], gates[2*e][i*in:]) + float64(biases[0][e*ffn+i])
				b := dot(x[r*in:(r+1)*in], gates[2*e+1][i*in:]) + float64(biases[1][e*ffn+i])
				activated[i] = float32(gatedActivation(o, a, b))
			}
			for i := range in {
				want[r*in+i] += route.shares[r*o.TopK+k] * (dot(activated, downs[e][i*ffn:]) + float64(biases[2][e*in+i]))
			}
		}
	}
	return want
}

func dot(x, w []float32) (s float64) {
	for i := range x {
		s += float64(x[i]) * float64(w[i])
	}
	return s
}

func gatedActivation(o graph.MoE, gate, up float64) float64 {
	switch {
	case o.Clamp != 0:
		gate, up = min(gate, o.Clamp), min(max(up, -o.Clamp), o.Clamp)
		return (up + 1) * gate / (1 + math.Exp(-graph.SwiGLUAlpha*gate))
	case o.Fn == graph.GeluTanh:
		return 0.5 * gate * (1 + math.Tanh(0.7978845608028654*(gate+0.044715*gate*gate*gate))) * up
	}
	return gate / (1 + math.Exp(-gate)) * up
}
