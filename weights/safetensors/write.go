package safetensors

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// Output is a tensor to be written.
type Output struct {
	Name  string
	DType DType
	Shape []int
	Data  func(io.Writer) error // writes the tensor's bytes, exactly as many as its dtype and shape take
}

// Bytes is how many bytes the tensor takes.
func (o *Output) Bytes() (int, error) { return o.DType.bytes(o.Shape) }

// Write writes a file of tensors in their order. Each tensor's Data is called once, in order, so that a file of any size passes through a small
// buffer. metadata may be nil.
func Write(w io.Writer, metadata map[string]string, tensors []Output) error {
	type entry struct {
		DType   DType  `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header := map[string]any{}
	if metadata != nil {
		header[metadataKey] = metadata
	}
	at := 0
	for i := range tensors {
		t := &tensors[i]
		n, err := t.Bytes()
		if err != nil {
			return fmt.Errorf("safetensors: writing tensor %q: it has %w", t.Name, err)
		}
		if _, twice := header[t.Name]; twice {
			return fmt.Errorf("safetensors: writing tensor %q a second time", t.Name)
		}
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		header[t.Name] = entry{t.DType, shape, [2]int{at, at + n}}
		at += n
	}
	text, err := json.Marshal(header)
	if err != nil {
		return fmt.Errorf("safetensors: writing: %w", err)
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	out := bufio.NewWriterSize(w, 1<<20)
	size := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	if _, err := out.Write(append(size, text...)); err != nil {
		return fmt.Errorf("safetensors: writing: %w", err)
	}
	for i := range tensors {
		t := &tensors[i]
		c := &counted{w: out}
		if err := t.Data(c); err != nil {
			return fmt.Errorf("safetensors: writing tensor %q: %w", t.Name, err)
		}
		if n, _ := t.Bytes(); c.n != n {
			return fmt.Errorf("safetensors: tensor %q of shape %d in %s takes %d bytes, and %d were given", t.Name, t.Shape, t.DType, n, c.n)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("safetensors: writing: %w", err)
	}
	return nil
}

// counted counts what is written.
type counted struct {
	w io.Writer
	n int
}

// Write implements io.Writer.
func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += n
	return n, err
}
