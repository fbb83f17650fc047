package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strings"
)

// Map is a dict: keys in the order of insertion. As in Python, 1, 1.0 and True are the same key.
type Map struct {
	keys   []any
	values []any
	index  map[any]int // from hash keys; made when the map grows beyond smallMap
}

const smallMap = 8 // entries that are searched one by one

// NewMap makes an empty map.
func NewMap() *Map { return &Map{} }

// Len is the number of entries.
func (m *Map) Len() int { return len(m.keys) }

// Get gives the value of a text key.
func (m *Map) Get(key string) (any, bool) {
	if i := m.find(key); i >= 0 {
		return m.values[i], true
	}
	return nil, false
}

// At gives entry i in the order of insertion.
func (m *Map) At(i int) (key, value any) { return m.keys[i], m.values[i] }

// Set sets the value of a text key and returns the map. A key that is there keeps its place.
func (m *Map) Set(key string, value any) *Map {
	m.put(key, key, value)
	return m
}

// Clone is a copy that can be changed without changing m; the values are shared.
func (m *Map) Clone() *Map {
	c := &Map{}
	for i, k := range m.keys {
		h, _ := hashKey(k)
		c.put(h, k, m.values[i])
	}
	return c
}

// find gives the place of a hash key, or -1.
func (m *Map) find(hash any) int {
	if m.index != nil {
		if i, ok := m.index[hash]; ok {
			return i
		}
		return -1
	}
	for i, k := range m.keys {
		if h, _ := hashKey(k); h == hash {
			return i
		}
	}
	return -1
}

func (m *Map) put(hash, key, value any) {
	if i := m.find(hash); i >= 0 {
		m.values[i] = value
		return
	}
	m.keys, m.values = append(m.keys, key), append(m.values, value)
	switch {
	case m.index != nil:
		m.index[hash] = len(m.keys) - 1
	case len(m.keys) > smallMap:
		m.index = make(map[any]int, 2*len(m.keys))
		for i, k := range m.keys {
			h, _ := hashKey(k)
			m.index[h] = i
		}
	}
}

// set sets the value of any key, failing for one that cannot be hashed.
func (m *Map) set(r *render, key, value any) error {
	hash, ok := hashKey(key)
	if !ok {
		return fail("unhashable type: '%s'", typeName(key))
	}
	if err := r.grow(2 * slotBytes); err != nil {
		return err
	}
	m.put(hash, key, value)
	return nil
}

// Hash keys of what Go cannot compare, or compares otherwise than Python does.
type (
	noneKey      struct{}
	undefinedKey struct{}
	bigKey       string
	tupleKey     string
)

const maxTupleKey = 1 << 16 // bytes; a tuple nested so that its key is longer is refused as a key

// hashKey is a Go-comparable stand-in for a key: equal keys have equal ones.
func hashKey(v any) (any, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case Markup:
		return string(v), true
	case int64:
		return v, true
	case nil:
		return noneKey{}, true
	case bool:
		if v {
			return int64(1), true
		}
		return int64(0), true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<63 {
			return int64(v), true
		}
		if v == math.Trunc(v) && !math.IsInf(v, 0) {
			i, _ := big.NewFloat(v).Int(nil)
			return bigKey(i.String()), true
		}
		return v, true
	case *big.Int:
		return bigKey(v.String()), true
	case *undefined:
		return undefinedKey{}, true
	case *Tuple:
		var b strings.Builder
		ok := writeTupleKey(&b, v)
		return tupleKey(b.String()), ok
	case *List, *Map, *dictView:
		return nil, false
	}
	return v, true // by identity
}

func writeTupleKey(b *strings.Builder, t *Tuple) bool {
	for _, item := range t.items {
		if sub, ok := item.(*Tuple); ok {
			b.WriteString("(")
			if b.Len() > maxTupleKey || !writeTupleKey(b, sub) {
				return false
			}
			b.WriteString(")")
			continue
		}
		h, ok := hashKey(item)
		if !ok || b.Len() > maxTupleKey {
			return false
		}
		s := fmt.Sprintf("%T:%v", h, h)
		fmt.Fprintf(b, "%d:%s", len(s), s)
	}
	return true
}
