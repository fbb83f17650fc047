package gguf

import (
	"fmt"
	"math"
)

// appendHeader appends everything before the padding.
func appendHeader(b []byte, keys []string, metadata map[string]any, infos []info) ([]byte, error) {
	if len(keys) != len(metadata) {
		return nil, fmt.Errorf("%d keys are in order, but the metadata has %d", len(keys), len(metadata))
	}
	b = append(b, magic...)
	b = order.AppendUint32(b, 3)
	b = order.AppendUint64(b, uint64(len(infos)))
	b = order.AppendUint64(b, uint64(len(keys)))
	done := make(map[string]bool, len(keys))
	for _, key := range keys {
		value, ok := metadata[key]
		if !ok || done[key] {
			return nil, fmt.Errorf("the metadata key %q is in the order of keys, but not once in the metadata", key)
		}
		done[key] = true
		kind, err := kindOf(value)
		if err != nil {
			return nil, fmt.Errorf("the metadata key %q has %w", key, err)
		}
		b = appendString(b, key)
		b = order.AppendUint32(b, kind)
		if b, err = appendValue(b, value); err != nil {
			return nil, fmt.Errorf("the metadata key %q has %w", key, err)
		}
	}
	for _, in := range infos {
		b = appendString(b, in.Name)
		b = order.AppendUint32(b, uint32(len(in.Shape)))
		for _, n := range fastestFirst(in.Shape) {
			b = order.AppendUint64(b, n)
		}
		b = order.AppendUint32(b, in.Format.Descriptor().GGUF.Tensor)
		b = order.AppendUint64(b, in.offset)
	}
	return b, nil
}

func appendString(b []byte, s string) []byte {
	return append(order.AppendUint64(b, uint64(len(s))), s...)
}

// kindOf is the kind of a metadata value.
func kindOf(value any) (uint32, error) {
	switch value.(type) {
	case uint8:
		return kindUint8, nil
	case int8:
		return kindInt8, nil
	case uint16:
		return kindUint16, nil
	case int16:
		return kindInt16, nil
	case uint32:
		return kindUint32, nil
	case int32:
		return kindInt32, nil
	case float32:
		return kindFloat32, nil
	case bool:
		return kindBool, nil
	case string:
		return kindString, nil
	case uint64:
		return kindUint64, nil
	case int64:
		return kindInt64, nil
	case float64:
		return kindFloat64, nil
	case []uint8, []int8, []uint16, []int16, []uint32, []int32, []float32, []bool, []string, []uint64, []int64, []float64, []any:
		return kindArray, nil
	}
	return 0, fmt.Errorf("a value of type %T, which GGUF cannot hold", value)
}

// appendValue appends a value without its kind. Its type is one that kindOf knows, but the elements of a []any are yet
// to be seen.
func appendValue(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case uint8:
		return append(b, v), nil
	case int8:
		return append(b, byte(v)), nil
	case uint16:
		return order.AppendUint16(b, v), nil
	case int16:
		return order.AppendUint16(b, uint16(v)), nil
	case uint32:
		return order.AppendUint32(b, v), nil
	case int32:
		return order.AppendUint32(b, uint32(v)), nil
	case float32:
		return order.AppendUint32(b, math.Float32bits(v)), nil
	case bool:
		if v {
			return append(b, 1), nil
		}
		return append(b, 0), nil
	case string:
		return appendString(b, v), nil
	case uint64:
		return order.AppendUint64(b, v), nil
	case int64:
		return order.AppendUint64(b, uint64(v)), nil
	case float64:
		return order.AppendUint64(b, math.Float64bits(v)), nil
	case []uint8:
		return appendArray(b, kindUint8, v)
	case []int8:
		return appendArray(b, kindInt8, v)
	case []uint16:
		return appendArray(b, kindUint16, v)
	case []int16:
		return appendArray(b, kindInt16, v)
	case []uint32:
		return appendArray(b, kindUint32, v)
	case []int32:
		return appendArray(b, kindInt32, v)
	case []float32:
		return appendArray(b, kindFloat32, v)
	case []bool:
		return appendArray(b, kindBool, v)
	case []string:
		return appendArray(b, kindString, v)
	case []uint64:
		return appendArray(b, kindUint64, v)
	case []int64:
		return appendArray(b, kindInt64, v)
	case []float64:
		return appendArray(b, kindFloat64, v)
	case []any:
		for _, e := range v {
			if kind, err := kindOf(e); err != nil || kind != kindArray {
				return nil, fmt.Errorf("a []any with an element of type %T; only arrays can be its elements", e)
			}
		}
		return appendArray(b, kindArray, v)
	}
	_, err := kindOf(value)
	return nil, err
}

func appendArray[T any](b []byte, kind uint32, list []T) ([]byte, error) {
	b = order.AppendUint32(b, kind)
	b = order.AppendUint64(b, uint64(len(list)))
	var err error
	for _, v := range list {
		if b, err = appendValue(b, v); err != nil {
			return nil, err
		}
	}
	return b, nil
}
