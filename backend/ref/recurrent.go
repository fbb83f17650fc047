package ref

import (
	"encoding/binary"
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// state is one sequence's state of a recurrent node, whose last input it is, while the step goes through the sequence.
type state struct {
	bytes []byte
	x     []float64
}

// states calls each with every sequence of the step and its state, from zero where the step computes the sequence's first token, and keeps
// what each leaves.
func (d *Device) states(n *graph.Node, a backend.Args, each func(x []float64, from, to int)) {
	last := len(n.In) - 1
	c := n.In[last].Cache
	size := c.StateBytes()
	for s := range d.batch.Seqs() {
		at := a.In[last].Off + int64(d.batch.Table(c.Group).States[s])*size
		kept := state{bytes: a.In[last].Mem.(*memory).bytes[at : at+size], x: make([]float64, c.State.Len())}
		if d.batch.Past(s) > 0 {
			kept.load()
			d.counted.CacheRead += size
		}
		each(kept.x, int(d.batch.QStart[s]), int(d.batch.QStart[s+1]))
		kept.store()
		d.counted.CacheWrite += size
	}
}

func (s state) load() {
	for i := range s.x {
		s.x[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(s.bytes[4*i:])))
	}
}

func (s state) store() {
	for i, v := range s.x {
		binary.LittleEndian.PutUint32(s.bytes[4*i:], math.Float32bits(float32(v)))
	}
}

// causalConv goes through each sequence token by token.
func causalConv(d *Device, n *graph.Node, a backend.Args) {
	channels, width := n.In[0].Axis.Len(), n.Weights[0].In.Len()
	w := make([][]float32, channels)
	for c := range w {
		w[c] = d.weightRow(a, 0, c)
	}
	var bias []float32
	if len(n.Weights) == 2 {
		bias = d.weightRow(a, 1, 0)
	}
	d.states(n, a, func(past []float64, from, to int) {
		for r := from; r < to; r++ {
			x := d.read(n, a, 0, r)
			y := make([]float32, channels)
			for c := range y {
				sum := float64(w[c][width-1]) * float64(x[c])
				for i := range width - 1 {
					sum += float64(w[c][i]) * past[i*channels+c]
				}
				d.flops(2 * width)
				if bias != nil {
					sum += float64(bias[c])
					d.flops(1)
				}
				if y[c] = float32(sum); n.Op.(graph.CausalConv).Silu {
					y[c] = float32(d.apply(graph.Silu, y[c]))
				}
			}
			copy(past, past[channels:])
			for c, v := range x {
				past[(width-2)*channels+c] = float64(v)
			}
			d.write(n, a, 0, r, y)
		}
	})
}

// softplus is ln(1 + eˣ).
func softplus(x float64) float64 {
	if x > 20 {
		return x
	}
	return math.Log1p(math.Exp(x))
}

// unit divides a vector by its length, and by a number.
func (d *Device) unit(x []float32, by float64) []float64 {
	squares := 0.0
	for _, v := range x {
		squares += float64(v) * float64(v)
	}
	y, scale := make([]float64, len(x)), 1/math.Sqrt(squares+graph.L2Eps)
	for i, v := range x {
		y[i] = float64(v) * scale / by
	}
	d.flops(3 * len(x))
	return y
}

// gatedDelta goes through each sequence token by token, head by head.
func gatedDelta(d *Device, n *graph.Node, a backend.Args) {
	o := n.Op.(graph.GatedDelta)
	decay, bias := d.weightRow(a, 0, 0), d.weightRow(a, 1, 0)
	keys := o.KeyHeads * o.KeySize
	d.states(n, a, func(x []float64, from, to int) {
		for r := from; r < to; r++ {
			row, alpha, beta := d.read(n, a, 0, r), d.read(n, a, 1, r), d.read(n, a, 2, r)
			out := make([]float32, o.ValueHeads*o.ValueSize)
			for kh := range o.KeyHeads {
				q := d.unit(row[kh*o.KeySize:(kh+1)*o.KeySize], math.Sqrt(float64(o.KeySize)))
				k := d.unit(row[keys+kh*o.KeySize:keys+(kh+1)*o.KeySize], 1)
				d.flops(7) // roots, divisions and what is added before them
				for h := range o.ValueHeads {
					if o.KeyHead(h) != kh {
						continue
					}
					v := row[2*keys+h*o.ValueSize : 2*keys+(h+1)*o.ValueSize]
					g := math.Exp(float64(decay[h]) * softplus(float64(alpha[h])+float64(bias[h])))
					rate := 1 / (1 + math.Exp(-float64(beta[h])))
					d.flops(9)
					d.deltaStep(x[h*o.KeySize*o.ValueSize:(h+1)*o.KeySize*o.ValueSize], q, k, v, g, rate, out[h*o.ValueSize:(h+1)*o.ValueSize])
				}
			}
			d.write(n, a, 0, r, out)
		}
	})
}

// kimiDelta goes through each sequence token by token, head by head.
func kimiDelta(d *Device, n *graph.Node, a backend.Args) {
	o, bias := n.Op.(graph.KimiDelta), d.weightRow(a, 1, 0)
	var decay []float32
	for h := range o.Heads {
		decay = append(decay, d.weightRow(a, 0, h)...)
	}
	d.states(n, a, func(x []float64, from, to int) {
		for r := from; r < to; r++ {
			var in [5][]float32
			for i := range in {
				in[i] = d.read(n, a, i, r)
			}
			out := make([]float32, o.Heads*o.Size)
			for h := range o.Heads {
				at := h * o.Size
				q, k := d.unit(in[0][at:at+o.Size], math.Sqrt(float64(o.Size))), d.unit(in[1][at:at+o.Size], 1)
				d.flops(7) // roots, divisions and what is added before them
				state := x[h*o.Size*o.Size : (h+1)*o.Size*o.Size]
				for i := range o.Size {
					g := math.Exp(float64(decay[h]) * softplus(float64(in[3][at+i])+float64(bias[at+i])))
					for j := range o.Size {
						state[i*o.Size+j] *= g
					}
					d.flops(6)
				}
				rate := 1 / (1 + math.Exp(-float64(in[4][h])))
				d.flops(3)
				d.deltaStep(state, q, k, in[2][at:at+o.Size], 1, rate, out[at:at+o.Size])
			}
			d.write(n, a, 0, r, out)
		}
	})
}

// deltaStep is one token of one head: S ← g·S, S ← S + k ⊗ rate(v − Sᵀk), out = Sᵀq.
func (d *Device) deltaStep(s, q, k []float64, v []float32, g, rate float64, out []float32) {
	size := len(v)
	for j := range v {
		predicted := 0.0
		for i := range k {
			s[i*size+j] *= g
			predicted += s[i*size+j] * k[i]
		}
		delta, sum := rate*(float64(v[j])-predicted), 0.0
		for i := range k {
			s[i*size+j] += k[i] * delta
			sum += s[i*size+j] * q[i]
		}
		out[j] = float32(sum)
		d.flops(7*len(k) + 2)
	}
}

// ssd goes through each sequence token by token, head by head.
func ssd(d *Device, n *graph.Node, a backend.Args) {
	o := n.Op.(graph.SSD)
	decay, bias, skip := d.weightRow(a, 0, 0), d.weightRow(a, 1, 0), d.weightRow(a, 2, 0)
	inner, groups := o.Heads*o.HeadSize, o.Groups*o.StateSize
	d.states(n, a, func(h []float64, from, to int) {
		for r := from; r < to; r++ {
			row, dt := d.read(n, a, 0, r), d.read(n, a, 1, r)
			out := make([]float32, inner)
			for head := range o.Heads {
				at := head / (o.Heads / o.Groups) * o.StateSize
				in, read := row[inner+at:inner+at+o.StateSize], row[inner+groups+at:inner+groups+at+o.StateSize]
				step := o.Clamp(softplus(float64(dt[head]) + float64(bias[head])))
				g := math.Exp(step * float64(decay[head]))
				d.flops(8)
				for i := head * o.HeadSize; i < (head+1)*o.HeadSize; i++ {
					x, sum := float64(row[i]), 0.0
					for j := range o.StateSize {
						s := &h[i*o.StateSize+j]
						*s = g**s + step*x*float64(in[j])
						sum += *s * float64(read[j])
					}
					out[i] = float32(sum + float64(skip[head])*x)
					d.flops(5*o.StateSize + 3)
				}
			}
			d.write(n, a, 0, r, out)
		}
	})
}

// selectiveScan goes through each sequence token by token.
func selectiveScan(d *Device, n *graph.Node, a backend.Args) {
	inner, size := n.In[0].Axis.Len(), n.In[2].Axis.Len()
	decay := make([][]float32, inner)
	for i := range decay {
		decay[i] = d.weightRow(a, 0, i)
	}
	skip := d.weightRow(a, 1, 0)
	d.states(n, a, func(h []float64, from, to int) {
		for r := from; r < to; r++ {
			x, dt, in, read := d.read(n, a, 0, r), d.read(n, a, 1, r), d.read(n, a, 2, r), d.read(n, a, 3, r)
			y := make([]float32, inner)
			for i := range y {
				step, sum := softplus(float64(dt[i])), 0.0
				for j := range size {
					s := &h[i*size+j]
					*s = math.Exp(step*float64(decay[i][j]))**s + step*float64(x[i])*float64(in[j])
					sum += *s * float64(read[j])
				}
				y[i] = float32(sum + float64(skip[i])*float64(x[i]))
				d.flops(7*size + 6)
			}
			d.write(n, a, 0, r, y)
		}
	})
}
