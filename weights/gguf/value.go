package gguf

import (
	"math"
)

// maxDepth bounds arrays of arrays; real files nest none or one.
const maxDepth = 4

// value reads one metadata value of the given kind. what names it for errors.
func (c *cursor) value(kind uint32, what string, depth int) any {
	if kind == kindArray {
		return c.array(what, depth)
	}
	if kind == kindString {
		return c.str(what)
	}
	if kind > kindFloat64 {
		c.fail("%s is of the unknown type %d", what, kind)
		return nil
	}
	b := c.take(uint64(kindSize[kind]), what)
	if b == nil {
		return nil
	}
	switch kind {
	case kindUint8:
		return b[0]
	case kindInt8:
		return int8(b[0])
	case kindUint16:
		return order.Uint16(b)
	case kindInt16:
		return int16(order.Uint16(b))
	case kindUint32:
		return order.Uint32(b)
	case kindInt32:
		return int32(order.Uint32(b))
	case kindFloat32:
		return math.Float32frombits(order.Uint32(b))
	case kindUint64:
		return order.Uint64(b)
	case kindInt64:
		return int64(order.Uint64(b))
	case kindFloat64:
		return math.Float64frombits(order.Uint64(b))
	default: // kindBool
		return c.boolean(b[0], what)
	}
}

func (c *cursor) boolean(b byte, what string) bool {
	if b > 1 {
		c.fail("%s is a bool with the value %d; only 0 and 1 are", what, b)
	}
	return b == 1
}

// array reads an array as a slice of its kind.
func (c *cursor) array(what string, depth int) any {
	kind := c.u32(what)
	if c.err == nil && kind > kindFloat64 {
		c.fail("%s is an array of the unknown type %d", what, kind)
	}
	if depth == maxDepth {
		c.fail("%s nests arrays more than %d deep", what, maxDepth)
	}
	if c.err != nil {
		return nil
	}
	size := kindSize[kind]
	n := c.count(size, "elements of "+what)
	if c.err != nil {
		return nil
	}
	switch kind {
	case kindString:
		return c.strings(n, what)
	case kindArray:
		list := make([]any, n)
		for i := range list {
			if list[i] = c.array(what, depth+1); c.err != nil {
				return nil
			}
		}
		return list
	}
	b := c.take(uint64(n*size), what)
	switch kind {
	case kindUint8:
		return append([]uint8{}, b...)
	case kindInt8:
		return numbers(b, 1, func(b []byte) int8 { return int8(b[0]) })
	case kindUint16:
		return numbers(b, 2, order.Uint16)
	case kindInt16:
		return numbers(b, 2, func(b []byte) int16 { return int16(order.Uint16(b)) })
	case kindUint32:
		return numbers(b, 4, order.Uint32)
	case kindInt32:
		return numbers(b, 4, func(b []byte) int32 { return int32(order.Uint32(b)) })
	case kindFloat32:
		return numbers(b, 4, func(b []byte) float32 { return math.Float32frombits(order.Uint32(b)) })
	case kindUint64:
		return numbers(b, 8, order.Uint64)
	case kindInt64:
		return numbers(b, 8, func(b []byte) int64 { return int64(order.Uint64(b)) })
	case kindFloat64:
		return numbers(b, 8, func(b []byte) float64 { return math.Float64frombits(order.Uint64(b)) })
	default: // kindBool
		return numbers(b, 1, func(b []byte) bool { return c.boolean(b[0], what) })
	}
}

func numbers[T any](b []byte, size int, get func([]byte) T) []T {
	list := make([]T, len(b)/size)
	for i := range list {
		list[i] = get(b[i*size:])
	}
	return list
}

// strings reads n strings. A vocabulary has hundreds of thousands, so they share one allocation: a copy of the whole
// array, which the strings are cut from.
func (c *cursor) strings(n int, what string) []string {
	start := c.at
	for range n {
		if c.take(c.u64(what), what); c.err != nil {
			return nil
		}
	}
	all := string(c.data[start:c.at])
	list := make([]string, n)
	for i, at := 0, start; i < n; i++ {
		from := at + 8
		at = from + int(order.Uint64(c.data[at:]))
		list[i] = all[from-start : at-start]
	}
	return list
}
