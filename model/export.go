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
	"github.com/ridge-llm/ridge/weights/recipe"
)

// Export is a model in GGUF's terms: what a GGUF file that holds it says and contains.
type Export struct {
	Meta    map[string]any // general.architecture and the architecture's own keys
	Tensors []Exported     // in the order in which a step reads them
}

// Exported is a tensor of the file to be written, under its GGUF name.
type Exported struct {
	Name   string
	Shape  []int         // slowest dimension first
	Format quant.Format  // of the numbers that Recipe makes; F32 for Values
	Recipe recipe.Recipe // over the tensors of the model's own file
	Values []float32     // not nil: the numbers themselves, which no tensor of the model's own file holds
}

// Size is the tensor as a matrix: the last dimension makes the columns.
func (x *Exported) Size() (rows, cols int) {
	rows, cols = 1, x.Shape[len(x.Shape)-1]
	for _, n := range x.Shape[:len(x.Shape)-1] {
		rows *= n
	}
	return rows, cols
}

// Export says how to write the model as GGUF. What it says is read back and compared; a model that GGUF's keys cannot
// describe is refused, with what they would lose.
func (m *Model) Export() (*Export, error) {
	g, err := m.Graph(Options{})
	if err != nil {
		return nil, err
	}
	arch := m.Arch.Name
	if m.Arch.Moe != "" && m.Config.Experts.Experts > 0 {
		arch = m.Arch.Moe
	}
	e := &Export{Meta: map[string]any{"general.architecture": arch}}
	for key, v := range m.Meta {
		if whole, ok := strings.CutPrefix(key, "/"); ok { // a key that does not begin with the architecture
			e.Meta[whole] = v
			continue
		}
		e.Meta[arch+"."+key] = v
	}
	e.Tensors = append(m.divisors(), m.whole(g)...)
	e.Tensors = append(e.Tensors, m.unusedKV(e.Tensors)...)
	zeros := m.zeroBiases(e.Tensors)
	e.Tensors = append(e.Tensors, zeros...)
	padded, cut := m.padPerLayer(e.Tensors), m.unusedPositions(e.Tensors)
	back, err := FromGGUF("the GGUF file to be written", e.Meta, readBack{e})
	if err != nil {
		return nil, err
	}
	tiled := back.Config.Delta.Tiled && !m.Config.Delta.Tiled // the other order of value heads loses nothing
	if tiled {
		back.Config.Delta.Tiled = false
	}
	if padded {
		back.Config.PerLayerRows = m.Config.PerLayerRows
	}
	if cut {
		back.Config.FirstPosition = m.Config.FirstPosition
	}
	if len(zeros) > 0 {
		back.Config.ConvBias = false
	}
	if err := m.same(back.Config); err != nil {
		return nil, err
	}
	m.interleave(e, back.Config)
	if tiled {
		m.tile(e)
	}
	for i := range e.Tensors {
		m.shapeInGGUF(&e.Tensors[i])
	}
	return e, nil
}

// whole lists the tensors that a graph's weights are or are parts of, as far as it uses them.
func (m *Model) whole(g *graph.Graph) []Exported {
	var list, parts []Exported
	at := map[string]int{}
	for _, w := range g.Weights {
		if w.Tensor == "" { // a constant
			continue
		}
		if of, cut := m.part(w.Tensor); cut != nil { // the tensor that it is cut from is written
			i, known := at[of]
			if !known {
				i = len(parts)
				at[of] = i
				parts = append(parts, Exported{Name: of, Shape: []int{0, w.In.Len()}, Format: w.Format})
				if m.files != nil {
					parts[i].Recipe = m.stored(of)
				}
			}
			parts[i].Shape[0] += w.Out.Len() // its weights are all of its rows
			continue
		}
		rows, cols := w.From+w.Out.Len(), w.In.Len()
		vector := w.Out.Len() == 1 && w.Matrices() == 1
		if vector {
			rows, cols = 1, w.From+w.In.Len()
		}
		i, known := at[w.Tensor]
		if !known {
			i = len(list)
			at[w.Tensor] = i
			stored, _ := m.Lookup(w.Tensor)
			list = append(list, Exported{Name: w.Tensor, Shape: []int{0, 0}, Format: w.Format, Recipe: stored.Recipe})
		}
		x := &list[i]
		switch {
		case vector:
			x.Shape = []int{max(x.Shape[len(x.Shape)-1], cols)}
		case w.Matrices() == 1:
			x.Shape = []int{max(x.Shape[0], rows), cols}
		case w.Out.Len() == 1:
			x.Shape = []int{w.Matrices(), cols}
		default:
			x.Shape = []int{w.Matrices(), rows, cols}
		}
	}
	for i := range list {
		x := &list[i]
		rows, _ := x.Size()
		if stored, _ := m.Lookup(x.Name); stored.Rows > rows {
			x.Recipe = recipe.Rows{Of: x.Recipe, From: 0, To: rows}
		}
	}
	return append(list, parts...)
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
		return Exported{Name: name, Shape: []int{len(v)}, Format: quant.F32, Values: v}
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

// readBack is an export as a reader of the written file sees it.
type readBack struct{ e *Export }

func (r readBack) Tensor(name string) (quant.Tensor, bool) {
	for _, t := range r.e.Tensors {
		if t.Name != name {
			continue
		}
		rows, cols := t.Size()
		q := quant.Tensor{Format: t.Format, Rows: rows, Cols: cols}
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
		case graph.Route:
			y := b.Field(i).Interface().(graph.Route)
			if near(x.Scale, y.Scale) {
				y.Scale = x.Scale
			}
			if x != y {
				return m.lost(field, x, y)
			}
		case map[string][]recipe.Factor: // the file's weights are multiplied already
		case *graph.Rotation:
			if err := m.sameRotation(field, x, b.Field(i).Interface().(*graph.Rotation)); err != nil {
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

// sameRotation compares rotations by what they do: the kind of scaling may be another when its frequencies are the same.
func (m *Model) sameRotation(field string, x, y *graph.Rotation) error {
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

// words is a field's name as words: "NormEps" → "norm eps".
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
