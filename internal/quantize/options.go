package quantize

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/internal/convert"
)

// Method is how matrices are rounded.
type Method string

// The methods.
const (
	RTN         Method = "rtn"
	MethodGPTQ  Method = "gptq"
	AWQ         Method = "awq"
	SmoothQuant Method = "smoothquant"
	AutoRound   Method = "autoround"
	Magnitude   Method = "magnitude"
	Wanda       Method = "wanda"
	SparseGPT   Method = "sparsegpt"
)

// Methods lists them.
var Methods = []Method{RTN, MethodGPTQ, AWQ, SmoothQuant, AutoRound, Magnitude, Wanda, SparseGPT}

// Options says how to quantise a model.
type Options struct {
	Method Method
	Grid   Grid // of magnitude, wanda and sparsegpt with 0 bits nothing is rounded
	Of4    int  // of these: 2 leaves 2 of every 4 numbers, 0 half of all
	GPTQ   GPTQ
	Alpha  float64 // of SmoothQuant, for all layers; 0: it is searched for each
	Rotate bool    // the residual stream and values are turned by Hadamard matrices before anything is rounded

	Head bool `json:",omitempty"` // the matrix that makes the logits is rounded too; of a directory, and by methods that scale no inputs

	Layout Layout // of a Hugging Face directory; "": that of the method, or of numbers that are not rounded their own

	Ends convert.Ends `json:"-"` // of a GGUF file: formats of embeddings and output matrix, which are chosen as it is written

	Threads  int              `json:"-"` // of the CPU; 0: as many as the process may use
	Backend  string           // the device that runs the model over the calibration text; "": the CPU
	Progress func(p Progress) `json:"-"`
}

// Progress is how far a run is.
type Progress struct {
	Layer, Layers int
	What          string  // "blk.3.attn_q", or what is done
	Before, After float64 // the layer's error: rounded to nearest, and by the method, each by the size of its results
}

// Layout is how a Hugging Face directory stores quantised matrices.
type Layout string

// The layouts.
const (
	LayoutGPTQ   Layout = "gptq"
	LayoutAWQ    Layout = "awq"
	LayoutPacked Layout = "compressed-tensors"
)

// usesGrid reports whether matrices are rounded to Grid.
func (o *Options) usesGrid() bool { return o.Grid.Bits != 0 }

// Prunes reports whether the method makes numbers zero instead of rounding them.
func (o *Options) Prunes() bool {
	return o.Method == Magnitude || o.Method == Wanda || o.Method == SparseGPT
}

// check says what is wrong with the options, and fills in what follows from others.
func (o *Options) check() error {
	if !slices.Contains(Methods, o.Method) {
		return fmt.Errorf("quantize: there is no method %q; possible are %q", o.Method, Methods)
	}
	if o.Head && (o.Method != RTN && o.Method != MethodGPTQ && o.Method != AutoRound || o.Rotate || o.Layout == LayoutAWQ) {
		return errors.New("quantize: the matrix that makes the logits (--lm-head) is rounded by rtn, gptq and autoround, in the layouts gptq and compressed-tensors, and without --rotate, which keeps it in floats")
	}
	if o.Rotate && o.Prunes() {
		return fmt.Errorf("quantize: %s looks for numbers that are small, and rotations make all alike; leave them out", o.Method)
	}
	if o.Of4 != 0 && o.Of4 != 2 {
		return fmt.Errorf("quantize: %d of 4 numbers; 2 of 4, or half of all, can be kept", o.Of4)
	}
	if o.Method == SmoothQuant {
		o.Grid = Grid{Bits: 8, Symmetric: true}
	}
	if o.Method == AWQ {
		o.Grid.Symmetric = false
	}
	if o.Prunes() && o.Grid.Bits == 0 {
		o.Grid = Grid{}
		return o.checkSparse()
	}
	if o.Grid.Bits < 2 || o.Grid.Bits > 8 {
		return fmt.Errorf("quantize: %d bits; 2 to 8 are possible", o.Grid.Bits)
	}
	if g := o.Grid.Group; g < 0 || g%32 != 0 {
		return fmt.Errorf("quantize: groups of %d numbers; a multiple of 32, or 0 for whole rows, is possible", g)
	}
	if !(o.Alpha >= 0 && o.Alpha <= 1) {
		return fmt.Errorf("quantize: alpha is %g; 0 to 1 is possible", o.Alpha)
	}
	if !(o.GPTQ.Damping >= 0 && o.GPTQ.Damping <= 1) {
		return fmt.Errorf("quantize: damping is %g; 0 to 1 is possible", o.GPTQ.Damping)
	}
	switch o.GPTQ.Order {
	case "":
		o.GPTQ.Order = Static
	case InPlace, Static, Full:
	default:
		return fmt.Errorf("quantize: there is no order of columns %q; off, static and full are possible", o.GPTQ.Order)
	}
	return o.checkLayout()
}

// checkSparse says which layout cannot hold numbers that are not rounded.
func (o *Options) checkSparse() error {
	switch {
	case o.Layout != "" && o.Layout != LayoutPacked:
		return fmt.Errorf("quantize: the layout %s is of numbers of few bits, and none are asked for; give --bits, or the layout compressed-tensors", o.Layout)
	case o.Layout == LayoutPacked && o.Of4 == 0:
		return fmt.Errorf("quantize: compressed-tensors' layout of sparse matrices (sparse-24-bitmask) keeps two of every four numbers; give --sparsity 2:4")
	}
	return nil
}

// checkLayout chooses the layout, and says what it cannot hold.
func (o *Options) checkLayout() error {
	if o.Layout == "" {
		switch o.Method {
		case AWQ:
			o.Layout = LayoutAWQ
		case SmoothQuant:
			o.Layout = LayoutPacked
		default:
			o.Layout = LayoutGPTQ
		}
		if b := o.Grid.Bits; o.Layout == LayoutAWQ && b != 4 || o.Layout == LayoutGPTQ && (b < 2 || b > 4) && b != 8 {
			o.Layout = LayoutPacked
		}
	}
	switch b := o.Grid.Bits; {
	case o.Layout == LayoutAWQ && b != 4:
		return fmt.Errorf("quantize: the layout awq is of 4 bits, and %d are asked for; compressed-tensors takes 2 to 8", b)
	case o.Layout == LayoutGPTQ && (b < 2 || b > 4) && b != 8:
		return fmt.Errorf("quantize: the layout gptq is of 2, 3, 4 or 8 bits, and %d are asked for; compressed-tensors takes 2 to 8", b)
	case o.Layout == LayoutAWQ && o.Method == MethodGPTQ && o.GPTQ.Order == Full:
		return fmt.Errorf("quantize: the layout awq cannot say which column is of which group; give --act-order static")
	case o.Layout != LayoutAWQ && o.Layout != LayoutGPTQ && o.Layout != LayoutPacked:
		return fmt.Errorf("quantize: there is no layout %q; gptq, awq and compressed-tensors are possible", o.Layout)
	}
	if o.Layout == LayoutAWQ {
		o.Grid.Symmetric = false
	}
	return nil
}
