package kvevents

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The part of MessagePack (github.com/msgpack/msgpack, spec.md) that events are written in.

func appendUint(b []byte, v uint64) []byte {
	switch {
	case v < 1<<7:
		return append(b, byte(v))
	case v < 1<<8:
		return append(b, 0xcc, byte(v))
	case v < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(v))
	case v < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
}

func appendNil(b []byte) []byte { return append(b, 0xc0) }

func appendFloat(b []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(v))
}

func appendString(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		b = append(b, 0xa0|byte(n))
	case n < 1<<8:
		b = append(b, 0xd9, byte(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
	}
	return append(b, s...)
}

// appendHead begins a list or a map of n: fix is its first byte for less than 16, wide for less than 65,536, and the one after it for more.
func appendHead(b []byte, n int, fix, wide byte) []byte {
	switch {
	case n < 16:
		return append(b, fix|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, wide), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, wide+1), uint32(n))
}

func appendArray(b []byte, n int) []byte { return appendHead(b, n, 0x90, 0xdc) }
func appendMap(b []byte, n int) []byte   { return appendHead(b, n, 0x80, 0xde) }

const maxDepth = 16

var errShort = errors.New("the message ends too early")

// decode reads a value: nil, bool, int64, uint64, float64, string (also of bytes), []any or map[string]any, whose other keys are left out.
func decode(b []byte, depth int) (v any, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, errShort
	}
	if depth > maxDepth {
		return nil, nil, fmt.Errorf("the message is nested more than %d deep", maxDepth)
	}
	c := b[0]
	b = b[1:]
	switch {
	case c < 0x80:
		return uint64(c), b, nil
	case c >= 0xe0:
		return int64(int8(c)), b, nil
	case c < 0x90:
		return decodeMap(b, uint64(c&15), depth)
	case c < 0xa0:
		return decodeArray(b, uint64(c&15), depth)
	case c < 0xc0:
		return decodeText(b, uint64(c&31))
	}
	size, ok := sizes[c]
	if !ok {
		return nil, nil, fmt.Errorf("the byte %#x begins nothing that events have", c)
	}
	if len(b) < size {
		return nil, nil, errShort
	}
	var x uint64
	for _, o := range b[:size] {
		x = x<<8 | uint64(o)
	}
	b = b[size:]
	switch c {
	case 0xc0:
		return nil, b, nil
	case 0xc2, 0xc3:
		return c == 0xc3, b, nil
	case 0xca:
		return float64(math.Float32frombits(uint32(x))), b, nil
	case 0xcb:
		return math.Float64frombits(x), b, nil
	case 0xcc, 0xcd, 0xce, 0xcf:
		return x, b, nil
	case 0xd0, 0xd1, 0xd2, 0xd3:
		shift := 64 - 8*size
		return int64(x<<shift) >> shift, b, nil
	case 0xdc, 0xdd:
		return decodeArray(b, x, depth)
	case 0xde, 0xdf:
		return decodeMap(b, x, depth)
	}
	return decodeText(b, x)
}

// sizes are how many bytes of a value, or of its length, follow a first byte.
var sizes = map[byte]int{
	0xc0: 0, 0xc2: 0, 0xc3: 0, 0xc4: 1, 0xc5: 2, 0xc6: 4, 0xca: 4, 0xcb: 8, 0xcc: 1, 0xcd: 2, 0xce: 4, 0xcf: 8,
	0xd0: 1, 0xd1: 2, 0xd2: 4, 0xd3: 8, 0xd9: 1, 0xda: 2, 0xdb: 4, 0xdc: 2, 0xdd: 4, 0xde: 2, 0xdf: 4,
}

func decodeText(b []byte, n uint64) (any, []byte, error) {
	if n > uint64(len(b)) {
		return nil, nil, errShort
	}
	return string(b[:n]), b[n:], nil
}

func decodeArray(b []byte, n uint64, depth int) (any, []byte, error) {
	if n > uint64(len(b)) { // a value has a byte at least
		return nil, nil, errShort
	}
	all := make([]any, n)
	var err error
	for i := range all {
		if all[i], b, err = decode(b, depth+1); err != nil {
			return nil, nil, err
		}
	}
	return all, b, nil
}

func decodeMap(b []byte, n uint64, depth int) (any, []byte, error) {
	if 2*n > uint64(len(b)) {
		return nil, nil, errShort
	}
	all := make(map[string]any, n)
	for range n {
		var key, v any
		var err error
		if key, b, err = decode(b, depth+1); err != nil {
			return nil, nil, err
		}
		if v, b, err = decode(b, depth+1); err != nil {
			return nil, nil, err
		}
		if name, ok := key.(string); ok {
			all[name] = v
		}
	}
	return all, b, nil
}
