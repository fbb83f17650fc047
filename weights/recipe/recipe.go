// Package recipe says how a weight is made of the tensors of a model file: an expression over them, which is data. Graphs show it, one
// executor computes it, for every kind of file, and a file of another kind is written by it.
//
// A recipe makes a matrix of rows × columns. What the file has as the recipe means it is a window into the file; the rest is made a block
// of rows at a time. A step of a new kind is one file here: its text, its check and its rows.
package recipe

import (
	"fmt"
	"strings"

	"github.com/ridge-llm/ridge/quant"
)

// Recipe is an expression over the tensors of a file. String is its text: indices as NumPy writes them.
type Recipe interface {
	fmt.Stringer
	// open checks the recipe against a file, without reading numbers.
	open(Tensors) (source, error)
}

// Tensors gives the tensors of a model file by the file's names.
type Tensors interface {
	Tensor(name string) (t quant.Tensor, ok bool)
}

// Shape is what a recipe makes.
type Shape struct {
	Format     quant.Format
	Rows, Cols int
}

func (s Shape) String() string { return fmt.Sprintf("%d × %d in %s", s.Rows, s.Cols, s.Format) }

// source is a recipe that has been checked, with what it reads.
type source interface {
	shape() Shape
	// window is rows [from, to) where they lie in the file; nil: they have to be made.
	window(from, to int) []byte
	// read makes rows [from, to) in dst, which they fill. Several goroutines call it at once.
	read(dst []byte, from, to int)
}

// Tensor is a tensor of the file as it lies.
type Tensor string

// Rows is rows [From, To) of a matrix; of a vector, which is one row, numbers [From, To).
type Rows struct {
	Of       Recipe
	From, To int
}

// Columns is every so many columns of a tensor, from First on.
type Columns struct {
	Of           Recipe
	First, Every int
}

// EveryRow is every so many rows of a matrix, from First on.
type EveryRow struct {
	Of           Recipe
	First, Every int
}

// Transpose transposes each of Count matrices of one shape that lie one below the other.
type Transpose struct {
	Of    Recipe
	Count int
}

// PlusOne adds 1 to each number, in F32: 1 + w needs more bits than w has.
type PlusOne struct{ Of Recipe }

// Stack is matrices of one shape, one below the other, such as those of experts.
type Stack []Recipe

// NegExp is −e^x of each number x, in F32: decays that are stored as logarithms.
type NegExp struct{ Of Recipe }

// Permute is rows of a matrix (of a vector: numbers) in another order: row i is row Index[i] of Of.
type Permute struct {
	Of    Recipe
	Index []int
}

// Flat is a matrix as one row: a vector that a file has in the form of a matrix.
type Flat struct{ Of Recipe }

// PermuteColumns is groups of Each columns of a matrix in another order: group i is group Index[i] of Of.
type PermuteColumns struct {
	Of    Recipe
	Index []int
	Each  int
}

func (r Tensor) String() string { return string(r) }

func (r Rows) String() string { return fmt.Sprintf("%s[%d:%d]", r.Of, r.From, r.To) }

func (r Columns) String() string { return fmt.Sprintf("%s[:, %d::%d]", r.Of, r.First, r.Every) }

func (r EveryRow) String() string { return fmt.Sprintf("%s[%d::%d]", r.Of, r.First, r.Every) }

func (r Transpose) String() string {
	if r.Count == 1 {
		return fmt.Sprintf("transpose(%s)", r.Of)
	}
	return fmt.Sprintf("transpose(%s, each of %d)", r.Of, r.Count)
}

func (r NegExp) String() string { return fmt.Sprintf("-exp(%s)", r.Of) }

func (r PlusOne) String() string { return fmt.Sprintf("%s + 1", r.Of) }

// shownParts is how many matrices of a Stack its text names.
const shownParts = 3

func (r Stack) String() string {
	names := make([]string, len(r))
	for i, x := range r {
		names[i] = x.String()
	}
	if n := len(names); n > shownParts {
		names = []string{names[0], "…", names[n-1], fmt.Sprintf("%d of them", n)}
	}
	return "stack(" + strings.Join(names, ", ") + ")"
}

func (r Permute) String() string { return fmt.Sprintf("permute(%s, %d rows)", r.Of, len(r.Index)) }

func (r Flat) String() string { return fmt.Sprintf("flat(%s)", r.Of) }

func (r PermuteColumns) String() string {
	return fmt.Sprintf("permute(%s, %d × %d columns)", r.Of, len(r.Index), r.Each)
}
