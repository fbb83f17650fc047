package calibrate

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/pass"
	"github.com/ridge-llm/ridge/price"
	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// tableRows is how many rows the tables have that feed the graphs.
const tableRows = 64

// lookup is a graph.Lookup that has every weight, in the format that its name says behind a slash; F32 otherwise.
func lookup(name string) (graph.Stored, bool) {
	f := graph.Stored{Format: quant.F32, Recipe: recipe.Tensor(name)}
	if _, format, ok := strings.Cut(name, "/"); ok {
		if named, err := quant.Parse(format); err == nil {
			f.Format = named
		}
	}
	return f, true
}

func axis(name string, count, size int) graph.Axis {
	return graph.Axis{Name: name, Count: count, Size: size}
}

// benchGraph builds the graph of a microbenchmark: nodes of the ops to time, on random rows.
type benchGraph struct {
	*graph.Builder
	info backend.Info
	last *graph.Value
}

func newBenchGraph(name string, info backend.Info, cache graph.Type) *benchGraph {
	return &benchGraph{Builder: graph.NewBuilder(name, lookup, info.Act, cache), info: info}
}

// feed is rows of random numbers.
func (y *benchGraph) feed(name string, a graph.Axis) *graph.Value {
	y.last = y.Embed(name, y.Weight(name+".table", axis("vocab", tableRows, 1), a), 0)
	return y.last
}

// products multiplies rows of in numbers with a matrix of out rows in each of the formats.
func (y *benchGraph) products(out, in int, formats []quant.Format) {
	name := fmt.Sprintf("%dx%d", out, in)
	x := y.feed(name, axis("in", in, 1))
	small := y.feed(name+".small", axis("small", 64, 1))
	for i, f := range formats {
		o, from := graph.Linear{To: y.info.Act}, x
		switch {
		case y.info.Q8 && pass.InIntegers(f):
			from = y.Emit(name+".q8."+f.String(), graph.Quantize{To: graph.Q8}, []*graph.Value{x})[0] // one for each format, which may differ in layout
		case y.info.Q8 && pass.MayRound(f):
			o.ActType = graph.Q8
		case y.info.BF16 && f == quant.BF16:
			o.ActType = graph.BF16
		}
		y.Softcap(fmt.Sprintf("%s.apart%d", name, i), small, 30) // between them, so that a GPU does not group products in one launch
		w := y.Weight(fmt.Sprintf("%s.%d/%s", name, i, f), axis("out", out, 1), axis("in", in, 1))
		y.last = y.Emit(name+"."+f.String(), o, []*graph.Value{from}, w)[0]
	}
}

// apart reports whether a sample is of a node that only separates products.
func apart(s price.Sample) bool { return strings.Contains(s.Node.Out[0].Name, ".apart") }

// rows adds the ops that treat rows one by one, on rows of heads × size numbers.
func (y *benchGraph) rows(heads, size int) {
	name := fmt.Sprintf("rows%dx%d", heads, size)
	hidden, perHead := axis("hidden", heads*size, 1), axis("heads", heads, size)
	x, z := y.feed(name+".x", hidden), y.feed(name+".z", hidden)
	h := y.feed(name+".h", perHead)
	y.RMSNorm(name+".norm", x, y.Vector(name+".norm.w", hidden), 1e-6)
	y.GroupRMSNorm(name+".norms", h, y.Vector(name+".norms.w", axis("head", 1, size)), 1e-6)
	y.LayerNorm(name+".layernorm", x, y.Vector(name+".ln.w", hidden), y.Vector(name+".ln.b", hidden), 1e-5)
	y.Emit(name+".addnorm", graph.AddNorm{Eps: 1e-6}, []*graph.Value{x, z}, y.Vector(name+".an.w", hidden))
	y.Add(name+".add", x, z)
	y.ActMul(name+".silu", x, z, graph.Silu)
	y.ActMul(name+".gelu", x, z, graph.GeluTanh)
	y.Act(name+".act", x, graph.GeluTanh)
	y.RoPE(name+".rope", h, &graph.Rotation{Name: name + ".angles", Pairing: graph.HalfPairs, Dim: size, Theta: 10000})
	if y.info.Q8 {
		y.Emit(name+".q8", graph.Quantize{To: graph.Q8}, []*graph.Value{x})
	}
	y.last = y.Softcap(name+".cap", x, 30)
}

// attention adds a cache with its writing, and attention over it.
func (y *benchGraph) attention(layer, heads, kv, size int) {
	name := fmt.Sprintf("attention%d:%dx%d", heads, kv, size)
	keys := axis("kv", kv, size)
	q, k, v := y.feed(name+".q", axis("heads", heads, size)), y.feed(name+".k", keys), y.feed(name+".v", keys)
	cache := y.KVWrite(y.Cache(layer, keys, keys, 0), k, v)
	y.last = y.Attention(name, q, cache, graph.Attention{Scale: 0.1})
}

// finish ends the graph; all of its nodes run, though only one makes its output.
func (y *benchGraph) finish() (*graph.Graph, error) { return y.Finish(y.SelectRows("out", y.last)) }

// tensors are the random weights of a graph, by their names.
type tensors map[string]quant.Tensor

// Tensor implements compile.Tensors.
func (t tensors) Tensor(name string) (quant.Tensor, bool) {
	x, ok := t[name]
	return x, ok
}

// Release implements compile.Tensors.
func (t tensors) Release([]byte) {}

// pattern is the period of the random numbers: encoding all of them would take longer than the measurement.
const pattern = 1 << 14

// randomTensors makes the weights of a graph.
func randomTensors(g *graph.Graph) (tensors, error) {
	rnd := rand.New(rand.NewPCG(1, 2))
	patterns := map[quant.Format][]byte{}
	numbers := make([]float32, pattern)
	for i := range numbers {
		numbers[i] = 0.05 * float32(rnd.NormFloat64())
	}
	all := tensors{}
	for _, w := range g.Weights {
		if w.Slots != nil { // throughput.FillSlots has numbers for them
			continue
		}
		if patterns[w.Format] == nil {
			patterns[w.Format] = make([]byte, w.Format.RowBytes(pattern))
			if err := quant.Encode(w.Format, patterns[w.Format], numbers); err != nil {
				return nil, fmt.Errorf("calibrate: %w", err)
			}
		}
		data := make([]byte, w.Bytes())
		for rest := data; len(rest) > 0; {
			rest = rest[copy(rest, patterns[w.Format]):]
		}
		t, err := quant.NewTensor(w.Format, w.Matrices()*w.Out.Len(), w.In.Len(), data)
		if err != nil {
			return nil, fmt.Errorf("calibrate: %w", err)
		}
		all[w.Tensor] = t
	}
	return all, nil
}
