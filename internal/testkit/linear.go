package testkit

import (
	"fmt"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// checkpointFormats are those that only checkpoints of the Hugging Face hub have.
var checkpointFormats = []quant.Format{quant.UINT4, quant.UINT8, quant.FP8_BLOCK, quant.NF4, quant.FP4, quant.NVFP4_ROW}

// linearCases multiply with every weight format, with and without bias, at odd sizes; block formats with float inputs
// and with quantised ones.
func linearCases() []Case {
	var all []Case
	for _, f := range append(quant.ReadFormats(), checkpointFormats...) {
		for _, size := range []struct{ out, in int }{{2, 256}, {37, 512}, {130, 768}, {70, 288}, {264, 320}} {
			sparse := f.Descriptor().Sparsity.Kept > 0 // the last size is one that GPUs' sparse products take
			if size.in%f.Block() != 0 || size.out == 264 && !sparse {
				continue
			}
			for i, steps := range rowSteps() {
				odd := size.in%64 != 0 // enough of in floats, and for some numbers of rows
				if odd && i%2 != 0 {
					continue
				}
				all = append(all, linearCase(f, size.out, size.in, steps, i%2 == 0, graph.F32))
				if f.Block() > 1 && !odd && !f.Descriptor().FloatCodes {
					c := linearCase(f, size.out, size.in, steps, i%2 == 0, graph.Q8)
					c.Name += "/q8"
					all = append(all, c)
				}
			}
		}
	}
	hidden := axis("hidden", 96, 1)
	all = append(all, perRows("Linear", "Linear/F32/1x96", 1e-5, func(b *graph.Builder) *graph.Value {
		return b.Linear("y", feed(b, "x", hidden), b.Weight("w", axis("gate", 1, 1), hidden), b.Vector("bias", axis("gate", 1, 1)))
	})...)
	return all
}

// linearCase multiplies out × in weights of a format with inputs of a type, which rows of floats are rounded to.
func linearCase(f quant.Format, out, in int, steps Steps, biased bool, inputs graph.Type) Case {
	return Case{
		Name: fmt.Sprintf("Linear/%s/%dx%d/rows%d", f, out, in, LimitsFor(steps, 16).Tokens), Op: "Linear", Steps: steps, Tolerance: 1e-5,
		Graph: func(b *graph.Builder) *graph.Value {
			rows, columns := axis("out", out, 1), axis("in", in, 1)
			x, bias := feed(b, "x", columns), (*graph.Weight)(nil)
			if biased {
				bias = b.Vector("bias", rows)
			}
			if inputs != graph.F32 {
				x = b.Emit("x8", graph.Quantize{To: inputs}, []*graph.Value{x})[0]
			}
			return b.Linear("y", x, b.Weight("w/"+f.String(), rows, columns), bias)
		},
	}
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

// decodedCases multiply weights that are decoded with inputs that may be rounded to Q8 where there are many; the tolerance is what the rounding of both loses.
func decodedCases() []Case {
	var all []Case
	for _, f := range []quant.Format{quant.FP8, quant.FP8_BLOCK, quant.INT8, quant.NF4, quant.NVFP4_ROW} {
		for _, steps := range rowSteps() {
			all = append(all, Case{
				Name: fmt.Sprintf("Linear/%s decoded/rows%d", f, LimitsFor(steps, 16).Tokens), Op: "Linear", Steps: steps, Tolerance: 0.015,
				Graph: func(b *graph.Builder) *graph.Value {
					w := b.Weight("w/"+f.String(), axis("out", 70, 1), axis("in", 768, 1))
					return b.Emit("y", graph.Linear{ActType: graph.Q8}, []*graph.Value{feed(b, "x", axis("in", 768, 1))}, w)[0]
				},
			})
		}
	}
	return all
}

// scaledCases multiply weights that are quantised on load: FP8 and INT8 with inputs in floats and with inputs rounded as the weights are, INT4
// with inputs in floats.
func scaledCases() []Case {
	var all []Case
	for _, f := range []quant.Format{quant.FP8, quant.INT8, quant.INT4} {
		for _, size := range []struct{ out, in int }{{2, 256}, {37, 512}, {136, 784}, {136, 640}} {
			if size.in%f.Block() != 0 || size.in == 640 && f.ScaledRows() {
				continue
			}
			for i, steps := range rowSteps() {
				all = append(all, linearCase(f, size.out, size.in, steps, i%2 == 0, graph.F32))
				if f.ScaledRows() {
					c := linearCase(f, size.out, size.in, steps, i%2 == 0, graph.ScaledRows(f))
					c.Name += "/rounded"
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// outlierCases multiply rows in I8 without their large numbers, and add what these come to: a few of a row, most of it, none.
func outlierCases() []Case {
	var all []Case
	for _, threshold := range []float64{0.1, 2, 100} {
		for _, size := range []struct{ out, in int }{{37, 512}, {136, 784}} {
			all = append(all, perRows("AddOutliers", fmt.Sprintf("AddOutliers/%g/%dx%d", threshold, size.out, size.in), 1e-5, func(b *graph.Builder) *graph.Value {
				x, w := feed(b, "x", axis("in", size.in, 1)), b.Weight("w/INT8", axis("out", size.out, 1), axis("in", size.in, 1))
				y := b.Add("given", feed(b, "y", axis("out", size.out, 1)), feed(b, "z", axis("out", size.out, 1)))
				return b.Emit("sum", graph.AddOutliers{Threshold: threshold}, []*graph.Value{y, x}, w)[0]
			})...)
			all = append(all, perRows("Quantize", fmt.Sprintf("Quantize/below %g/%dx%d", threshold, size.out, size.in), 1e-5, func(b *graph.Builder) *graph.Value {
				x := b.Emit("x8", graph.Quantize{To: graph.I8, Below: threshold}, []*graph.Value{feed(b, "x", axis("in", size.in, 1))})[0]
				return b.Linear("y", x, b.Weight("w/INT8", axis("out", size.out, 1), axis("in", size.in, 1)), nil)
			})...)
		}
	}
	return all
}

// headLinearCases multiply each head with a matrix of its own, of a part of its numbers.
func headLinearCases() []Case {
	var all []Case
	for _, f := range []quant.Format{quant.F32, quant.BF16, quant.Q8_0} {
		for _, rest := range []int{0, 8} {
			all = append(all, perRows("HeadLinear", fmt.Sprintf("HeadLinear/%s/rest%d", f, rest), 1e-5, func(b *graph.Builder) *graph.Value {
				w := b.Stack("w/"+f.String(), axis("heads", 3, 1), axis("rank", 72, 1), axis("in", 32, 1))
				return b.HeadLinear("y", feed(b, "x", axis("heads", 3, 32+rest)), w, rest)
			})...)
		}
	}
	return all
}
