package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// Export is a model in GGUF's terms: what a GGUF file that holds it says and contains.
type Export struct {
	Meta    map[string]any // general.architecture and the architecture's own keys
	Tensors []Exported     // in the order in which a step reads them
}

// Exported is a tensor of the file to be written, under its GGUF name.
type Exported struct {
	Name       string
	Rows, Cols int          // of the tensor as it is to be written; a vector is one row
	Format     quant.Format // of the numbers in the model's own file; F32 for Values
	Tensor     string       // in the model's own file
	Change     graph.Change // from that file to the graph
	Pair       *Head        // not nil: rows that turn together, half a head apart so far, become neighbours
	Values     []float32    // not nil: the numbers themselves, which no tensor of the model's own file holds
	Experts    int          // whose matrices lie one below the other; 0: it is no such tensor
	Stack      []string     // not nil: in the model's own file each of them is a tensor by itself
}

// Head is how the rows of queries or keys divide into heads, and how many of a head's rows turn.
type Head struct{ Size, Turning int }

// Export says how to write the model as GGUF. What it says is read back and compared; a model that GGUF's keys cannot
// describe is refused, with what they would lose.
func (m *Model) Export() (*Export, error) {
	g, err := m.Graph(Options{})
	if err != nil {
		return nil, err
	}
	e := &Export{Meta: map[string]any{"general.architecture": m.Arch.Name}}
	for key, v := range m.Meta {
		e.Meta[m.Arch.Name+"."+key] = v
	}
	e.Tensors = append(m.divisors(), m.stacked(whole(g))...)
	back, err := FromGGUF("the GGUF file to be written", e.Meta, readBack{e})
	if err != nil {
		return nil, err
	}
	if err := m.same(back.Config); err != nil {
		return nil, err
	}
	m.pair(e, back.Config)
	return e, nil
}

// whole lists the tensors that a graph's weights lie in; parts of one tensor count once.
func whole(g *graph.Graph) []Exported {
	var list []Exported
	at := map[string]int{}
	for _, w := range g.Weights {
		rows, cols := w.Source.From+w.Out.Len(), w.In.Len()
		if w.Out.Len() == 1 && !strings.HasSuffix(w.Source.Whole, "_exps.bias") { // a vector, or a part of one; not one of many
			rows, cols = 1, w.Source.From+w.In.Len()
		}
		name := w.Source.Whole
		i, known := at[name]
		if !known {
			i = len(list)
			at[name] = i
			list = append(list, Exported{Name: name, Format: w.Format, Tensor: w.Source.Tensor, Change: w.Source.Change})
		}
		list[i].Rows, list[i].Cols = max(list[i].Rows, rows), max(list[i].Cols, cols)
	}
	return list
}

// stacked puts the experts' matrices one below the other, as GGUF has them.
func (m *Model) stacked(list []Exported) []Exported {
	var all []Exported
	at := map[string]int{}
	for _, x := range list {
		if strings.HasSuffix(x.Name, "_exps.weight") {
			x.Experts = m.Config.Experts.Experts
		}
		name, single := strings.CutSuffix(stem(x.Name), ".E.weight")
		if !single {
			all = append(all, x)
			continue
		}
		layer := strings.Split(x.Name, ".")[1]
		name = strings.Replace(name, "N", layer, 1) + "_exps.weight"
		i, known := at[name]
		if !known {
			i = len(all)
			at[name] = i
			all = append(all, Exported{Name: name, Cols: x.Cols, Format: x.Format, Tensor: x.Tensor, Experts: m.Config.Experts.Experts})
		}
		all[i].Rows += x.Rows
		all[i].Stack = append(all[i].Stack, x.Tensor)
	}
	return all
}

// divisors are the rotation's numbers that GGUF keeps in tensors.
func (m *Model) divisors() []Exported {
	r := m.Config.Rotation
	if r == nil {
		return nil
	}
	vector := func(name string, d []float64) Exported {
		v := make([]float32, len(d))
		for i := range d {
			v[i] = float32(d[i])
		}
		return Exported{Name: name, Rows: 1, Cols: len(v), Format: quant.F32, Values: v}
	}
	switch s := r.Scaling; s.Kind {
	case graph.Llama3Scaling:
		plain := *r
		plain.Scaling = graph.Scaling{}
		without, _ := plain.Frequencies(1)
		with, _ := r.Frequencies(1)
		d := make([]float64, len(with))
		for i := range d {
			d[i] = float64(without[i]) / float64(with[i])
		}
		return []Exported{vector("rope_freqs.weight", d)}
	case graph.DivisorsScaling:
		return []Exported{vector("rope_freqs.weight", s.Short)}
	case graph.LongScaling:
		return []Exported{vector("rope_factors_short.weight", s.Short), vector("rope_factors_long.weight", s.Long)}
	}
	return nil
}

// pair marks the queries and keys whose rows a GGUF file holds in another order than the model's own file, because its
// readers turn neighbours together.
func (m *Model) pair(e *Export, back *Config) {
	r := m.Config.Rotation
	if r == nil || r.Pairing != graph.HalfPairs || back.Rotation.Pairing != graph.AdjacentPairs {
		return
	}
	for i := range e.Tensors {
		name, _, _ := strings.Cut(strings.TrimPrefix(stem(e.Tensors[i].Name), "blk.N."), ".")
		if name == "attn_q" || name == "attn_k" {
			e.Tensors[i].Pair = &Head{m.Config.HeadDim, r.Dim}
		}
	}
}

// readBack is an export as a reader of the written file sees it.
type readBack struct{ e *Export }

func (r readBack) Tensor(name string) (quant.Tensor, bool) {
	for _, t := range r.e.Tensors {
		if t.Name != name {
			continue
		}
		q := quant.Tensor{Format: t.Format, Rows: t.Rows, Cols: t.Cols}
		for _, v := range t.Values {
			q.Data = binary.LittleEndian.AppendUint32(q.Data, math.Float32bits(v))
		}
		return q, true
	}
	return quant.Tensor{}, false
}

// same compares a configuration with the one that a reader of the written file gets. It goes through every field there
// is, so that a field of a later architecture cannot be forgotten.
func (m *Model) same(back *Config) error {
	a, b := reflect.ValueOf(*m.Config), reflect.ValueOf(*back)
	for i := range a.NumField() {
		field := words(a.Type().Field(i).Name)
		switch x := a.Field(i).Interface().(type) {
		case float64:
			if y := b.Field(i).Float(); !near(x, y) {
				return m.lost(field, x, y)
			}
		case *graph.Rotation:
			if err := m.sameTurn(field, x, b.Field(i).Interface().(*graph.Rotation)); err != nil {
				return err
			}
		default:
			if y := b.Field(i).Interface(); !reflect.DeepEqual(x, y) {
				return m.lost(field, x, y)
			}
		}
	}
	return nil
}

// sameTurn compares rotations by what they do: the kind of scaling may be another when its frequencies are the same.
func (m *Model) sameTurn(field string, x, y *graph.Rotation) error {
	if x == nil || y == nil || x.Dim != y.Dim || x.Varies() != y.Varies() {
		if x == y {
			return nil
		}
		return m.lost(field, x, y)
	}
	for _, length := range []int{1, m.Config.Context} { // LongRoPE has frequencies for short texts and for long ones
		fx, mx := x.Frequencies(length)
		fy, my := y.Frequencies(length)
		for i := range fx {
			if !near(float64(fx[i]), float64(fy[i])) || !near(float64(mx), float64(my)) {
				return m.lost(field, x, y)
			}
		}
	}
	return nil
}

// near allows for what float32, in which GGUF holds numbers, rounds away.
func near(x, y float64) bool { return math.Abs(x-y) <= 1e-6*math.Abs(x) }

func (m *Model) lost(field string, x, y any) error {
	return fmt.Errorf("model: GGUF's keys for the architecture %s cannot say everything about this model: its %s is %v, and a reader would take %v", m.Arch.Name, field, x, y)
}

// words turns a field's name into words: "NormEps" → "norm eps".
func words(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) && unicode.IsLower(rune(name[i-1])) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
