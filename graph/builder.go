package graph

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ridge-llm/ridge/quant"
	"github.com/ridge-llm/ridge/weights/recipe"
)

// Stored is what is known of a tensor of the model: its number format, its size and the recipe that makes it of the file's tensors. A
// vector is one row, and matrices of a stack lie one below the other. Rows 0 says that there is no file: the tensor has whatever size is
// asked for.
type Stored struct {
	Format     quant.Format
	Rows, Cols int
	Recipe     recipe.Recipe
	Err        error // why the recipe does not fit the file
}

// Lookup finds a tensor by its name in GGUF's naming; ok is false when the model has no such tensor.
type Lookup func(name string) (s Stored, ok bool)

// Builder builds a Graph. Its errors stick: after the first, calls return harmless values and Finish returns that
// error with the line of the model's code that caused it.
type Builder struct {
	act     Type // element type of the activations
	cacheAs Type // element type of keys and values
	g       *Graph
	lookup  Lookup
	names   map[string]*Weight
	values  map[string]int // how often a value's name was asked for
	shared  map[*Rotation]*Value
	// residuals are the versions of the residual caches that belong to those of caches of I4.
	residuals map[*Value]*Value
	nextID    int
	layer     int  // of the nodes built now
	embeds    bool // token ids have been looked up
	err       error
}

// NewBuilder starts a graph. lookup says which tensors there are; act and cache are the element types of activations
// and of cached keys and values.
func NewBuilder(name string, lookup Lookup, act, cache Type) *Builder {
	return &Builder{
		act: act, cacheAs: cache,
		g: &Graph{Name: name}, lookup: lookup,
		names: map[string]*Weight{}, values: map[string]int{}, shared: map[*Rotation]*Value{}, residuals: map[*Value]*Value{}, layer: NoLayer,
	}
}

// Has reports whether the model brings a tensor of this name.
func (b *Builder) Has(name string) bool {
	_, ok := b.lookup(name)
	return ok
}

// Rows is how many rows the model's tensor of this name has; 0 when there is none, or only a shape and no weights.
func (b *Builder) Rows(name string) int {
	s, _ := b.lookup(name)
	return s.Rows
}

// Weight asks for a matrix of out × in; a vector is 1 × its axis. Asking again for the same name gives the same
// weight.
func (b *Builder) Weight(name string, out, in Axis) *Weight {
	return b.weight(&Weight{Name: name, Tensor: name, Out: out, In: in}, true)
}

// Stack asks for matrices of out × in that lie one below the other, one for each of an axis, such as experts; of vectors, out is 1.
func (b *Builder) Stack(name string, stack, out, in Axis) *Weight {
	return b.weight(&Weight{Name: name, Tensor: name, Stack: stack, Out: out, In: in}, true)
}

// Part asks for rows [from, from+out) of a matrix that holds several weights one below the other, as Phi-3's qkv does.
func (b *Builder) Part(name string, from int, out, in Axis) *Weight {
	return b.weight(&Weight{Name: fmt.Sprintf("%s[%d:%d]", name, from, from+out.Len()), Tensor: name, From: from, Out: out, In: in}, false)
}

// WeightColumns asks for columns [from, from+in) of a matrix whose rows are several inputs one behind the other.
func (b *Builder) WeightColumns(name string, from int, out, in Axis) *Weight {
	w := &Weight{Name: fmt.Sprintf("%s[:, %d:%d]", name, from, from+in.Len()), Tensor: name, Out: out, In: in, Format: quant.F32, At: b.caller()}
	if old, ok := b.names[w.Name]; ok {
		return old
	}
	b.names[w.Name] = w
	b.g.Weights = append(b.g.Weights, w)
	s, ok := b.lookup(name)
	switch {
	case !ok:
		b.fail("the model has no weight %s (%d rows)", name, out.Len())
	case s.Err != nil:
		b.fail("weight %s: %v", name, s.Err)
	case s.Rows != out.Len() || s.Cols < from+in.Len():
		b.fail("weight %s (tensor %s) is %d × %d, and rows of %d with columns %d to %d are wanted", name, s.Recipe, s.Rows, s.Cols, out.Len(), from, from+in.Len())
	default:
		w.Format, w.Recipe = s.Format, recipe.Slice{Of: s.Recipe, Count: 1, Matrices: 1, Rows: out.Len(), Col: from, Cols: in.Len()}
	}
	return w
}

// weight adds w, unless there is one of its name already; all says that it is all of its tensor.
func (b *Builder) weight(w *Weight, all bool) *Weight {
	rows, cols := w.Matrices()*w.Out.Len(), w.In.Len()
	if old, ok := b.names[w.Name]; ok {
		if old.Matrices()*old.Out.Len() != rows || old.In.Len() != cols {
			b.fail("weight %s is wanted as %d × %d here and as %d × %d at %s", w.Name, rows, cols, old.Matrices()*old.Out.Len(), old.In.Len(), old.At)
		}
		return old
	}
	w.Format, w.At = quant.F32, b.caller()
	b.names[w.Name] = w
	b.g.Weights = append(b.g.Weights, w)
	s, ok := b.lookup(w.Tensor)
	length, size := rows, s.Rows
	if s.Rows == 1 && rows == 1 { // a part of a vector is cut from its only row
		length, size = cols, s.Cols
	}
	fits := size == length || !all && size >= w.From+length
	switch {
	case !ok:
		b.fail("the model has no weight %s (%d × %d)", w.Tensor, rows, cols)
	case s.Err != nil:
		b.fail("weight %s: %v", w.Tensor, s.Err)
	case s.Rows != 0 && (!fits || s.Rows != 1 && s.Cols != cols):
		b.fail("weight %s (tensor %s) is %d × %d, and the configuration asks for %d × %d", w.Name, s.Recipe, s.Rows, s.Cols, rows, cols)
	case cols%s.Format.Block() != 0:
		b.fail("weight %s has rows of %d numbers, which do not divide into %s blocks of %d", w.Tensor, cols, s.Format, s.Format.Block())
	default:
		w.Format, w.Recipe = s.Format, s.Recipe
		if !all && w.Recipe != nil && size != length {
			w.Recipe = recipe.Rows{Of: w.Recipe, From: w.From, To: w.From + length}
		}
	}
	return w
}

// Slots is a new weight that adapters of another fill: see Weight.Slots. tensor is what they call it, in GGUF's naming.
func (b *Builder) Slots(name, tensor string, s Slots) *Weight {
	w := &Weight{Name: name, Out: s.Of.Out, In: s.Of.In, Format: quant.F32, Tensor: tensor, From: s.Of.From, At: s.Of.At, Slots: &s}
	b.g.Weights = append(b.g.Weights, w)
	return w
}

// Vector asks for one row of weights along an axis.
func (b *Builder) Vector(name string, a Axis) *Weight { return b.Weight(name, one, a) }

// Ones is a vector of ones along an axis, which no tensor of the model holds: the weight of a norm without any.
func (b *Builder) Ones(a Axis) *Weight {
	name := fmt.Sprintf("ones(%d)", a.Len())
	if w, ok := b.names[name]; ok {
		return w
	}
	w := &Weight{Name: name, Out: one, In: a, Format: quant.F32, Recipe: recipe.Ones(a.Len()), At: b.caller()}
	b.names[name] = w
	b.g.Weights = append(b.g.Weights, w)
	return w
}

// VectorPart asks for numbers [from, from+a) of a vector that holds several one behind the other.
func (b *Builder) VectorPart(name string, from int, a Axis) *Weight {
	return b.weight(&Weight{Name: fmt.Sprintf("%s[%d:%d]", name, from, from+a.Len()), Tensor: name, From: from, Out: one, In: a}, false)
}

var one = Axis{Name: "one", Count: 1, Size: 1}

// Cache declares the key and value store of a layer and returns its first version.
func (b *Builder) Cache(layer int, k, v Axis, window int) *Value {
	c := &Cache{Name: fmt.Sprintf("kv.%d", layer), Layer: layer, K: k, V: v, Type: b.cacheAs, Window: window}
	first := b.cache(c)
	if c.Type == I4 {
		newest := *c
		newest.Name, newest.Type, newest.Window, newest.Residual = c.Name+".residual", F16, quant.Int4Group, true
		b.residuals[first] = b.cache(&newest)
	}
	return first
}

// State declares a state of a recurrent layer, named for what it is the state of, and returns its first version.
func (b *Builder) State(of string, layer int, state Axis) *Value {
	return b.cache(&Cache{Name: fmt.Sprintf("%s.%d", of, layer), Layer: layer, State: state, Type: F32})
}

func (b *Builder) cache(c *Cache) *Value {
	c.Group = b.cacheGroup(c.Window, c.Recurrent())
	b.g.Caches = append(b.g.Caches, c)
	return b.value(Value{Cache: c}, c.Name)
}

// LatentCache declares a store of a layer whose rows are k alone: the first v numbers of its one head are its values. kind tells stores of
// one layer apart; rows of "kv" are what attention reads.
func (b *Builder) LatentCache(kind string, layer int, k, v Axis) *Value {
	if b.cacheAs == I4 {
		b.fail("%s.%d keeps latent vectors, of which there is no int4; choose --kv-type int8", kind, layer)
	}
	c := &Cache{Name: fmt.Sprintf("%s.%d", kind, layer), Layer: layer, K: k, V: v, Latent: true, Type: b.cacheAs}
	return b.cache(c)
}

// cacheGroup is the group of caches with this window, or of states; they are numbered in the order of their first layers.
func (b *Builder) cacheGroup(window int, recurrent bool) int {
	next := 0
	for _, c := range b.g.Caches {
		if c.Window == window && c.Recurrent() == recurrent {
			return c.Group
		}
		next = max(next, c.Group+1)
	}
	return next
}

// Layer sets the layer that the nodes built from here on belong to, from 0; NoLayer: none.
func (b *Builder) Layer(i int) { b.layer = i }

// Emit adds a node and returns what it makes, named name (name, name.1 … when there are several).
func (b *Builder) Emit(name string, op Op, in []*Value, weights ...*Weight) []*Value {
	return b.emit(b.caller(), name, op, in, weights)
}

func (b *Builder) emit(at, name string, op Op, in []*Value, weights []*Weight) []*Value {
	n := &Node{Op: op, In: in, Weights: weights, Layer: b.layer, At: at}
	outs, err := op.Infer(n)
	if err != nil && b.err == nil {
		b.err = fmt.Errorf("graph %s, %s: %s %s: %w", b.g.Name, at, op.Name(), name, err)
	}
	if b.err != nil {
		return []*Value{{Name: name}, {Name: name}, {Name: name}}
	}
	for i := range outs {
		as := name
		if i > 0 {
			as = fmt.Sprintf("%s.%d", name, i)
		}
		outs[i].From = n
		n.Out = append(n.Out, b.value(outs[i], as))
	}
	b.g.Nodes = append(b.g.Nodes, n)
	return n.Out
}

// Input adds rows that are there before the step, [tokens, a] in the type of activations: see Graph.Inputs.
func (b *Builder) Input(name string, a Axis) *Value {
	return b.input(name, Value{Rows: Tokens, Axis: a, Type: b.act})
}

func (b *Builder) input(name string, v Value) *Value {
	in := b.value(Value{Rows: v.Rows, Axis: v.Axis, Type: v.Type}, name)
	b.g.Inputs = append(b.g.Inputs, in)
	return in
}

// value numbers a value and makes its name unique.
func (b *Builder) value(v Value, name string) *Value {
	b.values[name]++
	if k := b.values[name]; k > 1 {
		name = fmt.Sprintf("%s'%d", name, k)
	}
	v.ID, v.Name = b.nextID, name
	b.nextID++
	return &v
}

func (b *Builder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("graph %s, %s: %s", b.g.Name, b.caller(), fmt.Sprintf(format, args...))
	}
}

// caller is the nearest line of code outside this package: the model's.
func (b *Builder) caller() string {
	var pcs [8]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.Contains(f.Function, "ridge/graph.") || !more {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
	}
}

// Finish names the graph's output and returns the graph once Verify has passed.
func (b *Builder) Finish(output *Value) (*Graph, error) {
	if b.err != nil {
		return nil, b.err
	}
	b.g.Output = output
	if err := b.g.Verify(); err != nil {
		return nil, err
	}
	return b.g, nil
}
