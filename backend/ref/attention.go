package ref

import (
	"math"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

// cacheRow is the bytes of keys (or values) of one slot. A page holds the keys of its tokens, then their values; one
// token's numbers lie together, head after head.
func cacheRow(c *graph.Cache, b backend.Buffer, pageSize int, slot int, values bool) []byte {
	page, at := slot/pageSize, slot%pageSize
	kBytes, vBytes := c.PartBytes(c.K), c.RowBytes()-c.PartBytes(c.K)
	off := b.Off + int64(page)*int64(pageSize)*(kBytes+vBytes)
	size := kBytes
	if values {
		off, size = off+int64(pageSize)*kBytes, vBytes
	}
	off += int64(at) * size
	return b.Mem.(*memory).bytes[off : off+size]
}

// kvWrite stores the step's keys and values at their slots.
func kvWrite(d *Device, n *graph.Node, a backend.Args) {
	c, to := n.In[0].Cache, a.Out[0]
	if c.Type == graph.I4 {
		d.counted.CacheWrite += int64(d.batch.Rows(graph.Tokens)) * c.RowBytes()
		c, to = n.In[3].Cache, a.Out[1]
		defer quantizeGroups(d, n, a)
	}
	for r, slot := range d.batch.Table(c.Group).Slots {
		if c.Latent {
			var row []float32
			for i := range n.In[1:] {
				row = append(row, d.read(n, a, 1+i, r)...)
			}
			storeHeads(cacheRow(c, to, a.Limits.PageSize, int(slot), false), c.Type, c.K, row)
			d.counted.CacheWrite += c.RowBytes()
			continue
		}
		storeHeads(cacheRow(c, to, a.Limits.PageSize, int(slot), false), c.Type, c.K, d.read(n, a, 1, r))
		storeHeads(cacheRow(c, to, a.Limits.PageSize, int(slot), true), c.Type, c.V, d.read(n, a, 2, r))
		d.counted.CacheWrite += c.RowBytes()
	}
}

// attention reads each sequence's cache rows once and scores all queries of the sequence against them.
func attention(d *Device, n *graph.Node, a backend.Args) {
	o, part := attentionOf(n)
	c, axis, b := n.In[1].Cache, n.In[0].Axis, d.batch
	share := axis.Count / c.K.Count // query heads of one key head
	var sinks []float32
	if len(n.Weights) == 1 {
		sinks = d.weightRow(a, 0, 0)
	}
	for s := range b.Seqs() {
		length := int(b.KVLen[s])
		first := 0 // the first row that the sequence's first query may look at
		switch {
		case o.Chunked:
			first = b.Past(s) - b.Past(s)%c.Window
		case c.Window > 0:
			first = max(0, b.Past(s)-c.Window+1)
		}
		for i, k := range b.Seen[min(int(b.QStart[s]), len(b.Seen)):min(int(b.QStart[s+1]), len(b.Seen))] {
			if i == 0 || k.Low < first {
				first = k.Low
			}
		}
		stored := d.rowsOf(c, a.In[1], a.Limits.PageSize, s, first)
		d.counted.CacheRead += int64(length-first) * c.RowBytes()
		newest := stored
		if c.Type == graph.I4 {
			newest = d.rowsOf(n.In[2].Cache, a.In[2], a.Limits.PageSize, s, first)
		}
		for r := b.QStart[s]; r < b.QStart[s+1]; r++ {
			q := d.read(n, a, 0, int(r))
			size := c.V.Size + part
			out := make([]float32, axis.Count*size)
			seen := b.KeysOf(s, int(r), backend.Mask{Window: c.Window, Chunked: o.Chunked, Bidirectional: o.Bidirectional, Reach: o.Reach})
			var rowKeys, rowValues [][]float32
			for p := seen.Low; p < seen.High; p++ {
				if !seen.Sees(p) {
					continue
				}
				from := stored
				if p >= seen.Group(quant.Int4Group) {
					from = newest
				}
				rowKeys, rowValues = append(rowKeys, from.keys[p]), append(rowValues, from.values[p])
			}
			for h := range axis.Count {
				kv, sink := h/share, sinks[min(h, len(sinks)):min(h+1, len(sinks))]
				d.attend(o, sink, q[h*axis.Size:(h+1)*axis.Size], out[h*size:][:c.V.Size], out[h*size:][c.V.Size:size],
					rowKeys, rowValues, kv*c.K.Size, kv*c.V.Size)
			}
			d.write(n, a, 0, int(r), out)
		}
	}
}

// attentionOf is a node's attention, and whether its results are partial: 1 more number for each head, or 0.
func attentionOf(n *graph.Node) (o graph.Attention, part int) {
	o, _ = graph.AttentionOf(n)
	if _, ok := n.Op.(graph.PartialAttention); ok {
		part = 1
	}
	return o, part
}

// cached is the keys and values of a sequence in a cache, by their places.
type cached struct{ keys, values [][]float32 }

// rowsOf decodes those of sequence s from place first on.
func (d *Device) rowsOf(c *graph.Cache, b backend.Buffer, pageSize, s, first int) (x cached) {
	length := int(d.batch.KVLen[s])
	x.keys, x.values = make([][]float32, length), make([][]float32, length)
	for p := first; p < length; p++ {
		slot := slotOf(d.batch, c.Group, s, p, pageSize)
		k, v := make([]float32, c.K.Len()), make([]float32, c.V.Len())
		switch {
		case c.Type == graph.I4:
			keys, values := int4Group(c, b, pageSize, slot)
			keys.load(k, p%quant.Int4Group)
			values.load(v, p%quant.Int4Group)
		default:
			loadHeads(k, c.Type, c.K, cacheRow(c, b, pageSize, slot, false))
			if c.Latent {
				copy(v, k)
			} else {
				loadHeads(v, c.Type, c.V, cacheRow(c, b, pageSize, slot, true))
			}
		}
		x.keys[p], x.values[p] = k, v
	}
	return x
}

// attend is one query head, with its sink if there is one, against the keys it may see, whose head starts at kOff (vOff for
// values) of each row. sums, of a partial result, gets the logarithm of the sum of exponentials.
func (d *Device) attend(o graph.Attention, sink, q, out, sums []float32, keys, values [][]float32, kOff, vOff int) {
	scores := make([]float64, len(keys))
	rowMax := math.Inf(-1)
	if len(keys) == 0 && len(sink) == 0 {
		rowMax = 0
	}
	for _, score := range sink {
		rowMax = float64(score)
	}
	for p, k := range keys {
		k := k[kOff:][:len(q)]
		score := 0.0
		for i, x := range q {
			score += float64(x) * float64(k[i])
		}
		scores[p] = score * o.Scale
		if o.Softcap != 0 {
			scores[p] = o.Softcap * math.Tanh(scores[p]/o.Softcap)
			d.flops(3)
		}
		rowMax = max(rowMax, scores[p])
		d.flops(2*len(q) + 2) // product, scale, maximum
	}
	var sum float64
	acc := make([]float64, len(out))
	for p, v := range values {
		e := math.Exp(scores[p] - rowMax)
		sum += e
		v := v[vOff:][:len(acc)]
		for i, x := range v {
			acc[i] += e * float64(x)
		}
		d.flops(2*len(out) + 2) // exponential, sum, product
	}
	for _, score := range sink {
		sum += math.Exp(float64(score) - rowMax)
		d.flops(3) // maximum, exponential, sum
	}
	for i := range out {
		if out[i] = float32(acc[i] / sum); sum == 0 { // no key is here
			out[i] = 0
		}
	}
	for i := range sums {
		sums[i] = float32(math.Log(sum) + rowMax)
		d.flops(2)
	}
	d.flops(len(out))
}
