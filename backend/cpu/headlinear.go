package cpu

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cpu/gemm"
	"github.com/ridge-llm/ridge/graph"
)

// headLinear is a bound product of each head with a matrix of its own. A unit of work is NR outputs of one head, for all rows.
type headLinear struct {
	dev           *Device
	heads         []*matrix
	in, out       []float32
	size, width   int // numbers of a head, in and out
	rest          int // of which so many are copied
	length, outs  int // columns and rows of a matrix
	panels        int // units of a head
	packed        bool
	scratch       []float32
	scratchFloats int // a worker's
}

func (d *Device) headLinearKernel(n *graph.Node) string {
	return fmt.Sprintf("head linear %s %s", n.Weights[0].Format, d.tier)
}

// headLinearScratch is a worker's: one head of all rows, and a panel of a dequantised matrix.
func headLinearScratch(n *graph.Node, lim backend.Limits) int64 {
	return (4*int64(lim.Rows(n.In[0].Rows)+gemm.NR)*int64(n.Weights[0].In.Len()) + 63) / 64 * 64
}

func bindHeadLinear(d *Device, n *graph.Node, a backend.Args) (body, error) {
	t, err := newHeadLinear(d, n, a)
	if err != nil {
		return nil, err
	}
	return func(w *worker, b *backend.Batch) { t.run(w, 0, rows(n, b)) }, nil
}

func newHeadLinear(d *Device, n *graph.Node, a backend.Args) (*headLinear, error) {
	w := n.Weights[0]
	t := &headLinear{
		dev: d, in: floats(a.In[0]), out: floats(a.Out[0]), size: n.In[0].Axis.Size, width: n.Out[0].Axis.Size, rest: n.Op.(graph.HeadLinear).Rest,
		length: w.In.Len(), outs: w.Out.Len(), panels: (w.Out.Len() + gemm.NR - 1) / gemm.NR, packed: w.Format.Block() > 1,
		scratch: floats(a.Scratch), scratchFloats: int(headLinearScratch(n, a.Limits) / 4),
	}
	for _, one := range a.Weights[0].(stack) {
		m, ok := one.(*matrix)
		if !ok {
			return nil, fmt.Errorf("cpu: weight %s has matrices of one row", w.Name)
		}
		if !t.packed {
			if err := d.preparePacked(m); err != nil {
				return nil, err
			}
		}
		t.heads = append(t.heads, m)
	}
	return t, nil
}

// run computes so many rows from one on.
func (t *headLinear) run(w *worker, row, rows int) {
	if rows == 0 {
		return
	}
	in, out := t.in[row*len(t.heads)*t.size:], t.out[row*len(t.heads)*t.width:]
	mem := t.scratch[w.id*t.scratchFloats:][:t.scratchFloats]
	x, panel := mem[:rows*t.length], mem[len(mem)-gemm.NR*t.length:]
	from, to := w.share(len(t.heads)*t.panels, 1)
	for from < to {
		h, first := from/t.panels, from%t.panels
		end := min(first+to-from, t.panels)
		for r := range rows {
			head := in[(r*len(t.heads)+h)*t.size:][:t.size]
			copy(x[r*t.length:], head[:t.length])
			if first == 0 {
				copy(out[(r*len(t.heads)+h)*t.width+t.outs:][:t.rest], head[t.length:])
			}
		}
		t.multiply(w, out, h, first*gemm.NR, min(end*gemm.NR, t.outs), x, panel, rows)
		from += end - first
	}
}

// multiply computes outputs [from, to) of a head, whose rows are x.
func (t *headLinear) multiply(w *worker, all []float32, h, from, to int, x, panel []float32, rows int) {
	out, ld, m := all[h*t.width:], len(t.heads)*t.width, t.heads[h]
	if !t.packed {
		w.acts = gemm.FloatActs(x, rows, t.length)
		w.acts.BatchInvariant = t.dev.deterministic
		gemm.Mul(t.dev.tier, out, ld, m.weights, from, to, &w.acts, 0, rows, w.scratch)
		return
	}
	for ; from < to; from += gemm.NR {
		end := min(from+gemm.NR, to)
		for o := from; o < end; o++ {
			t.dev.vec.Expand(m.Format, panel[(o-from)*t.length:][:t.length], m.Row(o))
		}
		for r := range rows {
			for o := from; o < end; o++ {
				out[r*ld+o] = t.dev.vec.Dot(x[r*t.length:][:t.length], panel[(o-from)*t.length:])
			}
		}
	}
}
