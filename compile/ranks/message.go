package ranks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// What rank 0 has the others do: the first byte of a message.
const (
	run byte = 1 + iota
	runBody
	copyPage
	storeState
	fetchState
	swapOut
	swapIn
	setAdapter
	warm
	sample
)

// appendInts appends lists of numbers, each behind its length.
func appendInts(data []byte, lists ...[]int32) []byte {
	for _, list := range lists {
		data = binary.LittleEndian.AppendUint32(data, uint32(len(list)))
		for _, x := range list {
			data = binary.LittleEndian.AppendUint32(data, uint32(x))
		}
	}
	return data
}

// reader reads a message; the first thing that is missing is its error.
type reader struct {
	data []byte
	err  error
}

var errCut = errors.New("ranks: a message of rank 0 ends in the middle")

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.data) {
		r.data, r.err = nil, errCut
		return nil
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) int() int {
	b := r.bytes(4)
	if b == nil {
		return 0
	}
	return int(int32(binary.LittleEndian.Uint32(b)))
}

func (r *reader) ints() []int32 {
	n := r.int()
	if n < 0 || n > len(r.data)/4 {
		r.data, r.err = nil, errCut
		return nil
	}
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(r.int())
	}
	return list
}

func (r *reader) floats() []float32 {
	list := r.ints()
	if len(list) == 0 {
		return nil
	}
	x := make([]float32, len(list))
	for i, bits := range list {
		x[i] = math.Float32frombits(uint32(bits))
	}
	return x
}

func (r *reader) end() error {
	if r.err == nil && len(r.data) > 0 {
		return fmt.Errorf("ranks: %d bytes behind a message of rank 0", len(r.data))
	}
	return r.err
}

func appendFloats(data []byte, x []float32) []byte {
	data = binary.LittleEndian.AppendUint32(data, uint32(len(x)))
	for _, v := range x {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}

func appendTensor(data []byte, t quant.Tensor) []byte {
	data = binary.LittleEndian.AppendUint32(data, uint32(len(t.Data)))
	if len(t.Data) == 0 {
		return data
	}
	for _, n := range []int{int(t.Format), t.Rows, t.Cols} {
		data = binary.LittleEndian.AppendUint32(data, uint32(n))
	}
	return append(data, t.Data...)
}

func (r *reader) tensor() (t quant.Tensor) {
	n := r.int()
	if n == 0 || r.err != nil {
		return t
	}
	format, rows, cols := r.int(), r.int(), r.int()
	bytes := r.bytes(n)
	if r.err != nil {
		return t
	}
	if format < 0 || format > math.MaxUint8 {
		r.err = fmt.Errorf("ranks: a matrix of an adapter is of number format %d", format)
		return t
	}
	t, err := quant.NewTensor(quant.Format(format), rows, cols, bytes)
	if err != nil && r.err == nil {
		r.err = err
	}
	return t
}

// appendLowRank appends what an adapter is for one weight; nil is nothing.
func appendLowRank(data []byte, l *graph.LowRank) []byte {
	if l == nil {
		return append(data, 0)
	}
	data = append(data, 1)
	data = appendTensor(appendTensor(appendTensor(data, l.A), l.B), l.Rows)
	data = binary.LittleEndian.AppendUint32(data, math.Float32bits(l.Scale))
	data = binary.LittleEndian.AppendUint32(data, uint32(l.Stack))
	data = appendFloats(appendFloats(data, l.Columns), l.Bias)
	if l.Indices == nil {
		return append(data, 0)
	}
	return appendInts(append(data, 1), l.Indices)
}

func (r *reader) lowRank() *graph.LowRank {
	if b := r.bytes(1); b == nil || b[0] == 0 {
		return nil
	}
	l := &graph.LowRank{A: r.tensor(), B: r.tensor(), Rows: r.tensor()}
	l.Scale, l.Stack = math.Float32frombits(uint32(r.int())), r.int()
	l.Columns, l.Bias = r.floats(), r.floats()
	if b := r.bytes(1); b != nil && b[0] != 0 {
		l.Indices = r.ints()
	}
	return l
}
