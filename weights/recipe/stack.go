package recipe

import "fmt"

// stack is sources of one shape, one below the other.
type stack struct {
	Shape
	parts []source
}

func (r Stack) open(files Tensors) (source, error) {
	if len(r) == 0 {
		return nil, fmt.Errorf("a stack of no matrices is wanted")
	}
	c := &stack{}
	for i, of := range r {
		part, err := of.open(files)
		if err != nil {
			return nil, err
		}
		s := part.shape()
		if i == 0 {
			c.Shape = s
		} else if s != c.Shape {
			return nil, fmt.Errorf("%s is %s, and %s, which it is stacked with, is %s", of, s, r[0], c.Shape)
		}
		c.parts = append(c.parts, part)
	}
	c.Rows *= len(r)
	return c, nil
}

func (c *stack) shape() Shape { return c.Shape }

func (c *stack) window(from, to int) []byte {
	each := c.Rows / len(c.parts)
	i := from / each
	if to > (i+1)*each {
		return nil
	}
	return c.parts[i].window(from-i*each, to-i*each)
}

func (c *stack) read(dst []byte, from, to int) {
	each, rowBytes := c.Rows/len(c.parts), int(c.Format.RowBytes(c.Cols))
	for from < to {
		i := from / each
		end := min(to, (i+1)*each)
		fill(c.parts[i], dst[:(end-from)*rowBytes], from-i*each, end-i*each)
		dst, from = dst[(end-from)*rowBytes:], end
	}
}

// fill makes rows of a source in dst, wherever they lie.
func fill(s source, dst []byte, from, to int) {
	if w := s.window(from, to); w != nil {
		copy(dst, w)
	} else {
		s.read(dst, from, to)
	}
}
