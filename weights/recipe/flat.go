package recipe

import "fmt"

func (r Flat) open(files Tensors) (source, error) {
	s, err := numbers(r.Of, files, "taken as one row")
	if err != nil {
		return nil, err
	}
	if s.col != s.size || s.row != s.cols*s.size || s.rows > 1 && s.count > 1 && s.matrix != s.rows*s.row {
		return nil, fmt.Errorf("%s does not lie in one piece, and is to be taken as one row", r.Of)
	}
	flat := *s
	flat.count, flat.rows, flat.cols = 1, 1, s.count*s.rows*s.cols
	flat.row = flat.cols * s.size
	flat.matrix = flat.row
	return &flat, nil
}
