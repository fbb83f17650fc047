package tokenizer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// readMetadata reads the metadata of a GGUF file, versions 2 and 3. It serves the tests only: package weights/gguf, which
// programs use, may not be imported from here.
func readMetadata(b []byte) (meta map[string]any, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the file ends too early")
		}
	}()
	r := &metadataReader{b}
	if string(r.take(4)) != "GGUF" {
		return nil, errors.New("not a GGUF file")
	}
	if v := r.u32(); v != 2 && v != 3 {
		return nil, fmt.Errorf("GGUF version %d", v)
	}
	r.u64() // tensors
	meta = map[string]any{}
	for n := r.u64(); n > 0; n-- {
		key := r.str()
		meta[key] = r.value(r.u32())
	}
	return meta, nil
}

type metadataReader struct{ b []byte }

func (r *metadataReader) take(n uint64) []byte {
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *metadataReader) u32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *metadataReader) u64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }
func (r *metadataReader) str() string { return string(r.take(r.u64())) }

func (r *metadataReader) value(kind uint32) any {
	switch kind {
	case 0:
		return r.take(1)[0]
	case 1:
		return int8(r.take(1)[0])
	case 4:
		return r.u32()
	case 5:
		return int32(r.u32())
	case 6:
		return math.Float32frombits(r.u32())
	case 7:
		return r.take(1)[0] != 0
	case 8:
		return r.str()
	case 9:
		switch kind, n := r.u32(), r.u64(); kind {
		case 0:
			return append([]uint8(nil), r.take(n)...)
		case 1:
			return items(n, func() int8 { return int8(r.take(1)[0]) })
		case 4:
			return items(n, r.u32)
		case 5:
			return items(n, func() int32 { return int32(r.u32()) })
		case 6:
			return items(n, func() float32 { return math.Float32frombits(r.u32()) })
		case 8:
			return items(n, r.str)
		}
	case 10:
		return r.u64()
	}
	panic(kind)
}

func items[T any](n uint64, next func() T) []T {
	var list []T
	for ; n > 0; n-- {
		list = append(list, next())
	}
	return list
}
