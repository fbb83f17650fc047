package model

import (
	"maps"
	"math"

	"github.com/ridge-llm/ridge/graph"
)

// Sizes and windows that configurations list layer by layer.

// ffn is the width of a layer's feed-forward block.
func (l layer) ffn() graph.Axis {
	a := l.c.ffn()
	if l.c.LayerFFN != nil {
		a.Count = l.c.LayerFFN[l.i]
	}
	return a
}

// perLayer takes a field that may list a size for each layer out of the configuration, and leaves its largest in its place, where what
// reads sizes finds it; nil: it is one number, or not there.
func (f *fields) perLayer(hf, gguf string) (list []int) {
	v, name := f.raw(hf, gguf)
	switch values := v.(type) {
	case []any:
		for _, v := range values {
			n, ok := number(v)
			list = append(list, int(n))
			if !ok || n != math.Trunc(n) || n < 0 || n > maxSize {
				f.fail("field %s lists %v and whole numbers of at most %d are wanted", name, v, maxSize)
			}
		}
	case []int32:
		for _, n := range values {
			list = append(list, int(n))
		}
	case []uint32:
		for _, n := range values {
			list = append(list, int(min(n, math.MaxInt32)))
		}
	default:
		return nil
	}
	largest := 0
	for _, n := range list {
		largest = max(largest, n)
	}
	if f.isHF() {
		f.hf = maps.Clone(f.hf)
		f.hf[hf] = float64(largest)
	} else {
		f.gguf = maps.Clone(f.gguf)
		f.gguf[name] = uint32(largest)
	}
	return list
}

// layerFFN is what perLayer took of the widths of feed-forward blocks, where they differ.
func (f *fields) layerFFN(c *Config, list []int) {
	differ := false
	for _, n := range list {
		differ = differ || n != c.FFN
	}
	if !differ {
		return
	}
	f.eachLayer(c, len(list), "intermediate_size")
	c.LayerFFN = list
	f.note("feed_forward_length", int32s(list))
}

// doubleWidths gives layers that share keys and values feed-forward blocks of twice the width, if they have that; in GGUF a list of widths does.
func (f *fields) doubleWidths(c *Config, widths []int) {
	if !f.isHF() {
		f.layerFFN(c, widths)
		if len(c.LayerFFN) > 0 {
			c.FFN = c.LayerFFN[0]
		}
		return
	}
	if widths != nil {
		f.fail("field intermediate_size is a list and one width is wanted")
	}
	if !f.flag("use_double_wide_mlp", false) || c.SharedKV == 0 || c.Layers > maxLayers || c.FFN > maxSize/2 {
		return
	}
	c.LayerFFN = make([]int, c.Layers)
	for i := range c.LayerFFN {
		if c.LayerFFN[i] = c.FFN; i >= c.Layers-c.SharedKV {
			c.LayerFFN[i] *= 2
		}
	}
	f.note("feed_forward_length", int32s(c.LayerFFN))
}

// eachLayer refuses a list that has not one entry for each layer.
func (f *fields) eachLayer(c *Config, n int, what string) bool {
	if n != c.Layers {
		f.fail("field %s lists %d layers and num_hidden_layers says %d", what, n, c.Layers)
	}
	return n == c.Layers
}

// listedWindows gives layers their window as f.windows does, and in GGUF as a list of which layers have one or a number says: of so many the
// last has none.
func (f *fields) listedWindows(c *Config, window, every int) {
	const key = "attention.sliding_window_pattern"
	if list, ok := f.metaList(key).([]bool); ok && !f.isHF() {
		if f.eachLayer(c, len(list), f.arch+"."+key) {
			for i, sliding := range list {
				if sliding {
					c.Windows[i] = window
				}
			}
		}
	} else {
		every = f.sizeOr("", key, every)
		f.windows(c, window, func(i int) bool { return every > 0 && (i+1)%every != 0 })
	}
	sliding := make([]bool, len(c.Windows))
	for i, w := range c.Windows {
		sliding[i] = w > 0
	}
	f.note(key, sliding)
}

func int32s(list []int) []int32 {
	out := make([]int32, len(list))
	for i, n := range list {
		out[i] = int32(n)
	}
	return out
}

// metaList is a key of GGUF metadata; nil of config.json.
func (f *fields) metaList(key string) any {
	if f.isHF() {
		return nil
	}
	return f.meta(key)
}
