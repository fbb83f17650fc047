package ref

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// headLinear reads every input row and every weight row once.
func headLinear(d *Device, n *graph.Node, a backend.Args) {
	o, w, rows := n.Op.(graph.HeadLinear), n.Weights[0], d.rows(n)
	size, width, length := n.In[0].Axis.Size, n.Out[0].Axis.Size, w.In.Len()
	in, out := make([][]float32, rows), make([][]float32, rows)
	for r := range in {
		in[r], out[r] = d.read(n, a, 0, r), make([]float32, n.Out[0].Axis.Len())
	}
	for h := range w.Matrices() {
		for i := range w.Out.Len() {
			row := d.weightRow(a, 0, h*w.Out.Len()+i)
			for r := range in {
				var sum float64
				for j, x := range in[r][h*size:][:length] {
					sum += float64(x) * float64(row[j])
				}
				out[r][h*width+i] = float32(sum)
			}
			d.flops(2 * length * rows)
		}
		for r := range in {
			copy(out[r][(h+1)*width-o.Rest:(h+1)*width], in[r][h*size+length:])
		}
	}
	for r := range out {
		d.write(n, a, 0, r, out[r])
	}
}
