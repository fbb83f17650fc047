package jinja

// MapText is a value of the kinds that DecodeJSON gives with every text in it, keys included, replaced by what f makes of it.
func MapText(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case *List:
		list := &List{make([]any, len(v.items))}
		for i, x := range v.items {
			list.items[i] = MapText(x, f)
		}
		return list
	case *Map:
		m := NewMap()
		for i, k := range v.keys {
			key := MapText(k, f)
			hash, _ := hashKey(key)
			m.put(hash, key, MapText(v.values[i], f))
		}
		return m
	}
	return v
}
