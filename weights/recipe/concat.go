package recipe

import "fmt"

// concat is sources one below the other.
type concat struct {
	Shape
	parts []source
	first []int // row of each part, and behind the last
}

func (r Concat) open(files Tensors) (source, error) {
	c := &concat{first: []int{0}}
	for i, of := range r {
		part, err := of.open(files)
		if err != nil {
			return nil, err
		}
		s := part.shape()
		if i == 0 {
			c.Shape = s
		} else if s.Format != c.Format || s.Cols != c.Cols {
			return nil, fmt.Errorf("%s is %s, which does not fit below %s, which is %s", of, s, r[0], c.parts[0].shape())
		}
		c.parts, c.first = append(c.parts, part), append(c.first, c.first[i]+s.Rows)
	}
	c.Rows = c.first[len(r)]
	return c, nil
}

func (c *concat) shape() Shape { return c.Shape }

// each calls do for every part that has some of the rows [from, to): those from its row a to b.
func (c *concat) each(from, to int, do func(part source, a, b int)) {
	for i, part := range c.parts {
		if a, b := max(from, c.first[i]), min(to, c.first[i+1]); a < b {
			do(part, a-c.first[i], b-c.first[i])
		}
	}
}

func (c *concat) window(from, to int) (rows []byte) {
	c.each(from, to, func(part source, a, b int) {
		if b-a == to-from {
			rows = part.window(a, b)
		}
	})
	return rows
}

func (c *concat) read(dst []byte, from, to int) {
	rowBytes := int(c.Format.RowBytes(c.Cols))
	c.each(from, to, func(part source, a, b int) {
		fill(part, dst[:(b-a)*rowBytes], a, b)
		dst = dst[(b-a)*rowBytes:]
	})
}

// fill makes rows of a source in dst, wherever they lie.
func fill(s source, dst []byte, from, to int) {
	if w := s.window(from, to); w != nil {
		copy(dst, w)
	} else {
		s.read(dst, from, to)
	}
}
