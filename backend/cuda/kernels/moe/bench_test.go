package moe

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gputest"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// BenchmarkBlock prints what a block of experts and its parts take in the shapes of well-known models: random scores, other ones in each
// run, so that each run has other experts. The rate is that of the weights that some row needs; for many rows the arithmetic's.
func BenchmarkBlock(b *testing.B) {
	gputest.Run(b, func(g *gputest.GPU) {
		for _, c := range []struct {
			name    string
			o       graph.MoE
			in, ffn int
			formats []quant.Format
		}{
			{"Qwen3-30B-A3B", graph.MoE{Experts: 128, TopK: 8}, 2048, 768, []quant.Format{quant.BF16, quant.Q4_0, quant.Q4_K}},
			{"gpt-oss-20b", graph.MoE{Experts: 32, TopK: 4, Biased: true, Clamp: 7}, 2880, 2880, []quant.Format{quant.MXFP4}},
			{"Mixtral-8x7B", graph.MoE{Experts: 8, TopK: 2}, 4096, 14336, []quant.Format{quant.BF16, quant.Q4_0}},
		} {
			for _, f := range c.formats {
				b.Run(fmt.Sprint(c.name, "/", f), func(b *testing.B) {
					g.Must(g.Ctx.Do(func() error {
						g.Scope(func() {
							bench := newBench(g, c.o, f, c.in, c.ffn)
							for _, rows := range []int{1, 2, 4, 8, 16, 32, 128, 2048} {
								each := Each(c.o, f, rows, true)
								fmt.Printf("%-13s %-5s rows %4d, jobs of %3d: %s\n", c.name, f, rows, each, bench.rows(rows, each))
								if rows >= 2 && each < sm90SmallJobSlots && f == quant.BF16 {
									fmt.Printf("%-13s %-5s rows %4d, jobs of %3d: %s\n", c.name, f, rows, sm90SmallJobSlots, bench.rows(rows, sm90SmallJobSlots))
								}
							}
						})
						return nil
					}))
				})
			}
		}
	})
}

type bench struct {
	*gputest.GPU
	o                           graph.MoE
	f                           quant.Format
	in, ffn                     int
	gate, down, bias            driver.Ptr
	x, activated, results, sums driver.Ptr
}

const benchRows = 2048

func newBench(g *gputest.GPU, o graph.MoE, f quant.Format, in, ffn int) *bench {
	each, eachDown := int(Bytes(f, 2*ffn, in)), int(Bytes(f, in, ffn))
	b := &bench{GPU: g, o: o, f: f, in: in, ffn: ffn, gate: g.Noise(o.Experts * each), down: g.Noise(o.Experts * eachDown)}
	b.x, b.activated = g.Noise(2*benchRows*in), g.Noise(2*benchRows*o.TopK*ffn)
	b.results, b.sums = g.Noise(2*benchRows*o.TopK*in), g.Noise(2*benchRows*in)
	if o.Biased {
		b.bias = g.Zeros(4 * o.Experts * max(in, ffn))
	}
	return b
}

// rows times a step of so many rows, in jobs of each.
func (b *bench) rows(rows, each int) (line string) {
	sets := 16
	if rows > 128 {
		sets = 2
	}
	b.Scope(func() {
		var route, sort, gated, down, sum, singles, singleGated, gemv, gemvGated, gemvDown []func() error
		experts, slots := 0, benchRows*b.o.TopK
		to := Product{X: b.x, Permuted: b.results, Slots: slots, W: b.gate, Gated: true, Bias: b.bias, UpBias: b.bias, Y: b.activated, N: b.ffn, K: b.in, Format: b.f}
		back := Product{X: b.activated, BySlot: true, Slots: slots, W: b.down, Bias: b.bias, Y: b.results, N: b.in, K: b.ffn, Format: b.f}
		for range sets {
			scores := b.Random(rows*b.o.Experts, 1)
			for _, of := range referenceRouting(scores, b.o).rows {
				experts += min(1, len(of))
			}
			s, step := room(b.GPU, b.o, rows), &kernels.Step{Counts: b.Ints(int32(rows), 0, 0)}
			router, err := NewRouter(b.Loader, graph.BF16, b.BF16(scores), b.o, kernels.CountTokens, s)
			b.Must(err)
			first, err := NewGroupedGemm(b.Loader, to, b.o, s)
			b.Must(err)
			last, err := NewGroupedGemm(b.Loader, back, b.o, s)
			b.Must(err)
			combine, err := NewCombine(b.Loader, graph.BF16, b.results, b.sums, b.in, b.o, kernels.CountTokens, s)
			b.Must(err)
			permuter, err := NewPermuter(b.Loader, b.x, b.results, b.in, b.o, s)
			b.Must(err)
			route = append(route, func() error { return router.Launch(b.Stream, step, rows, each) })
			gated = append(gated, func() error {
				if each > MaxUnpermuted {
					b.Must(permuter.Launch(b.Stream, rows*b.o.TopK))
				}
				return first.Launch(b.Stream, rows, each)
			})
			down = append(down, func() error { return last.Launch(b.Stream, rows, each) })
			sum = append(sum, func() error { return combine.Launch(b.Stream, step, rows, false) })
			sort = append(sort, func() error { return permuter.Launch(b.Stream, rows*b.o.TopK) })
			if rows <= MaxGemvRows(b.Loader, b.o, to, back) {
				k, err := NewGroupedGemv(b.Loader, graph.BF16, router.p.Scores, to, back, b.o, kernels.CountTokens, s.Share)
				b.Must(err)
				gemv = append(gemv, func() error { return k.Launch(b.Stream, step, rows) })
				gemvGated = append(gemvGated, func() error { return k.gated.launch(b.Stream, step, b.o, rows) })
				gemvDown = append(gemvDown, func() error { return k.down.launch(b.Stream, step, b.o, rows) })
			}
			if rows > 8 || MaxSingleRows(b.Loader, b.o, to, back) == 0 {
				continue
			}
			single, err := NewSingleRow(b.Loader, graph.BF16, router.p.Scores, to, back, b.sums, 0, b.o)
			b.Must(err)
			singles = append(singles, func() error { return single.Launch(b.Stream, rows) })
			singleGated = append(singleGated, func() error { return single.gated.launch(b.Stream, rows) })
		}
		all := b.time(route, gated, down, sum)
		matrix := float64(b.in) * float64(b.ffn)
		bytes := float64(experts) / float64(sets) * (float64(Bytes(b.f, 2*b.ffn, b.in)) + float64(Bytes(b.f, b.in, b.ffn)))
		line = fmt.Sprintf("%8.1f µs, %5.2f TB/s, %5.0f TFLOP/s (route %.1f, sort and gated %.1f, down %.1f, sum %.1f)", micro(all), bytes/all.Seconds()/1e12,
			6*matrix*float64(rows*b.o.TopK)/all.Seconds()/1e12, micro(b.time(route)), micro(b.time(gated)), micro(b.time(down)), micro(b.time(sum)))
		if each > MaxUnpermuted {
			line += fmt.Sprintf("; sort %.1f", micro(b.time(sort)))
		}
		if gemv != nil {
			took := b.time(gemv, sum)
			line += fmt.Sprintf("; gemv %.1f, %.2f TB/s (gated %.1f, down %.1f)", micro(took), bytes/took.Seconds()/1e12, micro(b.time(gemvGated)), micro(b.time(gemvDown)))
		}
		if singles != nil {
			line += fmt.Sprintf("; single row %.1f (gated %.1f)", micro(b.time(singles)), micro(b.time(singleGated)))
		}
	})
	return line
}

func micro(d time.Duration) float64 { return d.Seconds() * 1e6 }

// time is what one of each of some launches takes: the median of some replays of a recorded graph of all sets.
func (b *bench) time(parts ...[]func() error) time.Duration {
	sets := len(parts[0])
	recorded, err := b.Stream.Capture(func() error {
		for i := range sets {
			for _, part := range parts {
				if err := part[i](); err != nil {
					return err
				}
			}
		}
		return nil
	})
	b.Must(err)
	defer recorded.Close()
	start, err := b.Ctx.NewEvent()
	b.Must(err)
	stop, err := b.Ctx.NewEvent()
	b.Must(err)
	defer start.Close()
	defer stop.Close()
	var times []time.Duration
	for range 7 {
		b.Must(b.Stream.Record(start))
		b.Must(b.Stream.Replay(recorded))
		b.Must(b.Stream.Record(stop))
		b.Must(stop.Synchronize())
		d, err := stop.Since(start)
		b.Must(err)
		times = append(times, d)
	}
	slices.Sort(times)
	return times[len(times)/2] / time.Duration(sets)
}
