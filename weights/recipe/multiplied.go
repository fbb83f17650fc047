package recipe

import (
	"fmt"
	"strings"
)

// Multiplied is a matrix whose rows are multiplied by numbers, in F32: the first By[0].Rows rows by By[0].Number, and so on. One Factor of
// no rows is for all of them.
type Multiplied struct {
	Of Recipe
	By []Factor
}

// Factor is what so many rows are multiplied by.
type Factor struct {
	Rows   int
	Number float32
}

func (r Multiplied) String() string {
	by := make([]string, len(r.By))
	for i, f := range r.By {
		if by[i] = fmt.Sprint(f.Number); f.Rows > 0 {
			by[i] += fmt.Sprintf(" (%d rows)", f.Rows)
		}
	}
	return fmt.Sprintf("%s × %s", r.Of, strings.Join(by, ", "))
}

func (r Multiplied) open(files Tensors) (source, error) {
	of, err := r.Of.open(files)
	if err != nil {
		return nil, err
	}
	s, rows := of.shape(), 0
	for _, f := range r.By {
		rows += f.Rows
	}
	if all := len(r.By) == 1 && rows == 0; !all && rows != s.Rows {
		return nil, fmt.Errorf("%s is %s, and there are numbers to multiply %d rows by", r.Of, s, rows)
	}
	return mapped{of, func(row int) func(float32) float32 {
		by := r.number(row)
		return func(v float32) float32 { return by * v }
	}}, nil
}

// number is what a row is multiplied by.
func (r Multiplied) number(row int) float32 {
	for _, f := range r.By {
		if row < f.Rows || f.Rows == 0 {
			return f.Number
		}
		row -= f.Rows
	}
	return 1
}
