package cpu

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/backend/cpu/vec"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// bindEmbed decodes the rows that the step's tokens (or positions) name. A table of one row is a vector.
func bindEmbed(_ vec.Ops, n *graph.Node, a backend.Args) body {
	o := n.Op.(graph.Embed)
	out, width := floats(a.Out[0]), n.Out[0].Axis.Len()
	lookUp := func(dst []float32, _ int) { copy(dst, a.Weights[0].(vector)) }
	if table, ok := a.Weights[0].(*matrix); ok {
		lookUp = func(dst []float32, i int) { quant.Decode(table.Format, dst, table.Row(i)) }
	}
	table := n.Weights[0].Out
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(len(b.Tokens), 1)
		for r := from; r < to; r++ {
			row := out[r*width : (r+1)*width]
			i := o.Index(b.Tokens, b.Positions, b.Segments, r) - o.First
			if table.Shards > 0 && (i < 0 || i >= table.Len()) { // another device has it
				clear(row)
				continue
			}
			lookUp(row, i)
			if o.Scale != 0 {
				for i := range row {
					row[i] *= float32(o.Scale)
				}
			}
		}
		if o.Input {
			giveEmbeddings(out, width, b, from, to, o.First == 0)
		}
	}
}

// giveEmbeddings puts the rows [from, to) that a step gives as embeddings in place; of several devices with shards of the table one does, and
// the others have 0.
func giveEmbeddings(out []float32, width int, b *backend.Batch, from, to int, puts bool) {
	for i, r := range b.EmbeddingRows {
		if int(r) < from || int(r) >= to {
			continue
		}
		row := out[int(r)*width:][:width]
		if clear(row); puts {
			copy(row, b.Embeddings[i*width:][:width])
		}
	}
}

// linearKernel chooses the kernel of a matmul: block formats with Q8 inputs in integers, everything else in floats; a block format
// with float inputs, which only exact runs have, is dequantised a panel at a time.
func (d *Device) linearKernel(n *graph.Node) kernel {
	format := n.Weights[0].Format
	if n.Weights[0].Out.Len() == 1 {
		return kernel{name: "dot", bind: bindDot}
	}
	if format.Block() > 1 && n.In[0].Type == graph.F32 {
		return kernel{name: "linear decoding " + format.String(), bind: bindDecoding, scratch: d.decodingScratch}
	}
	return kernel{name: fmt.Sprintf("linear %s %s", format, d.tier), into: d.bindLinear}
}

// linear is a bound matmul. It divides the weight's rows among the workers: for few inputs, where reading them takes the time, in blocks
// that fast workers steal from slow ones.
type linear struct {
	*matmul
	rows   graph.Rows
	in     backend.Buffer
	q8     bool           // of the inputs
	format gemm.ActFormat // that of inputs in floats is multiplied in
	out    []float32
}

// bindLinear binds a matmul.
func (d *Device) bindLinear(l *launch, n *graph.Node, a backend.Args) error {
	matrix := a.Weights[0].(*matrix)
	if err := d.preparePacked(matrix); err != nil {
		return err
	}
	p := &linear{matmul: newMatmul(d, matrix, biasOf(a)), rows: n.In[0].Rows, in: a.In[0], q8: n.In[0].Type == graph.Q8, format: gemm.Float32, out: floats(a.Out[0])}
	if n.Op.(graph.Linear).ActType == graph.BF16 {
		p.format = gemm.ActFormatOf(d.tier, matrix.weights.Format)
	}
	l.linear, l.run = p, p.runAll
	return nil
}

// begin gives the worker what it multiplies, and says how many rows that are.
func (p *linear) begin(w *worker, b *backend.Batch) (m int) {
	weights := p.matrix.weights
	if m = b.Rows(p.rows); m == 0 {
		return 0
	}
	if p.q8 {
		w.acts = w.q8.acts(p.d, raw(p.in), m, weights.Cols)
	} else {
		w.acts = gemm.FloatActs(floats(p.in), m, weights.Cols)
		w.acts.Format, w.acts.BatchInvariant = p.format, p.d.deterministic
	}
	w.out = p.out
	return m
}

func (p *linear) runAll(w *worker, b *backend.Batch) {
	if m := p.begin(w, b); m > 0 {
		p.run(w, m)
	}
}

// bindDot multiplies rows with a matrix of one row, which is kept as a vector: a gate's.
func bindDot(d *Device, n *graph.Node, a backend.Args) (body, error) {
	weight, bias := a.Weights[0].(vector), biasOf(a)
	in, out := floats(a.In[0]), floats(a.Out[0])
	return func(w *worker, b *backend.Batch) {
		from, to := w.rowShare(rows(n, b))
		for r := from; r < to; r++ {
			out[r] = d.vec.Dot(in[r*len(weight):(r+1)*len(weight)], weight)
			if bias != nil {
				out[r] += bias[0]
			}
		}
	}, nil
}

// biasOf is a linear node's bias, nil when it has none.
func biasOf(a backend.Args) vector {
	if len(a.Weights) == 2 {
		return a.Weights[1].(vector)
	}
	return nil
}

// addBias adds the bias to outputs [from, to) of rows [first, last).
func addBias(out []float32, bias vector, first, last, width, from, to int) {
	if bias == nil {
		return
	}
	for r := first; r < last; r++ {
		row := out[r*width : (r+1)*width]
		for o := from; o < to; o++ {
			row[o] += bias[o]
		}
	}
}

// decodingScratch is memory for a decoding, by worker: see newDecoding.
func (d *Device) decodingScratch(n *graph.Node, lim backend.Limits) int64 {
	k, workers := int64(n.Weights[0].In.Len()), int64(d.pool.N())
	bytes := 4 * gemm.NR * k
	if decodesToBytes(n) {
		bytes += (int64(gemm.ActBytes(gemm.Q8, lim.Rows(n.In[0].Rows), int(k)))/workers + 64) &^ 63
	}
	return bytes
}

// quantizePartition is by columns where the input was computed by columns, so that a worker quantizes its own.
func quantizePartition(n *graph.Node) partition {
	if n.In[0].From == nil { // the rows are there before the step
		return byRows
	}
	switch n.In[0].From.Op.(type) {
	case graph.Linear, graph.Act, graph.ActMul:
		return byColumns
	default:
		return byRows
	}
}

// bindQuantize quantizes rows, or columns of them, to Q8.
func bindQuantize(d *Device, n *graph.Node, a backend.Args) (body, error) {
	in, out, width := floats(a.In[0]), raw(a.Out[0]), n.In[0].Axis.Len()
	part := quantizePartition(n)
	return func(w *worker, b *backend.Batch) {
		m := rows(n, b)
		if m == 0 {
			return
		}
		first, last, from, to := 0, m, 0, width
		if part == byRows {
			first, last = w.share(last, 1)
		} else {
			from, to = w.columns(width)
		}
		first, last = w.rowBlock(first, last)
		acts := w.q8.acts(d, out, m, width)
		for r := first; r < last && from < to; r++ {
			acts.FillPart(d.tier, in[r*width+from:r*width+to], r, from)
		}
	}, nil
}

// bindSelectRows copies the rows whose logits are wanted.
func bindSelectRows(_ vec.Ops, n *graph.Node, a backend.Args) body {
	in, out, width := floats(a.In[0]), floats(a.Out[0]), n.Out[0].Axis.Len()
	return func(w *worker, b *backend.Batch) {
		from, to := w.share(len(b.LogitsIndices), 1)
		for i := from; i < to; i++ {
			r := int(b.LogitsIndices[i])
			copy(out[i*width:(i+1)*width], in[r*width:(r+1)*width])
		}
	}
}
