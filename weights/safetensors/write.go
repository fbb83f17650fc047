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

// Write writes a safetensors file with the tensors in the order given; metadata may be nil. Each tensor's Data is called
// once, in order, so that a file of any size passes through a small buffer. As in files written by Hugging Face, the
// header is padded so that the data begin at a multiple of 8 bytes.
func Write(w io.Writer, metadata map[string]string, tensors []Output) error {
	if err := write(w, metadata, tensors); err != nil {
		return fmt.Errorf("safetensors: writing: %w", err)
	}
	return nil
}

func write(w io.Writer, metadata map[string]string, tensors []Output) error {
	header, sizes, err := header(metadata, tensors)
	if err != nil {
		return err
	}
	buf := bufio.NewWriterSize(w, 1<<20)
	buf.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) // its errors stick until Flush
	buf.Write(header)
	for i, t := range tensors {
		c := counter{w: buf}
		if err := t.Data(&c); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if c.n != sizes[i] {
			return fmt.Errorf("tensor %q of shape %d in %s takes %d bytes, and %d were given", t.Name, t.Shape, t.DType, sizes[i], c.n)
		}
	}
	return buf.Flush()
}

// header is the JSON header, padded, and the size of each tensor in bytes.
func header(metadata map[string]string, tensors []Output) ([]byte, []int64, error) {
	type description struct {
		DType   DType    `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	b := []byte{'{'}
	field := func(key string, value any) error {
		k, err := json.Marshal(key)
		if err != nil {
			return err
		}
		v, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, k...), ':'), v...)
		return nil
	}
	if metadata != nil {
		if err := field(metadataKey, metadata); err != nil {
			return nil, nil, err
		}
	}
	names := map[string]bool{metadataKey: true}
	sizes := make([]int64, len(tensors))
	at := int64(0)
	for i, t := range tensors {
		if names[t.Name] {
			return nil, nil, fmt.Errorf("the tensor name %q occurs twice or is reserved", t.Name)
		}
		names[t.Name] = true
		n, err := t.DType.bytes(t.Shape)
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %q has %w", t.Name, err)
		}
		sizes[i] = int64(n)
		shape := append([]int{}, t.Shape...) // a nil shape must be written as []
		if err := field(t.Name, description{t.DType, shape, [2]int64{at, at + sizes[i]}}); err != nil {
			return nil, nil, err
		}
		at += sizes[i]
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	return b, sizes, nil
}

// counter counts what has been written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
