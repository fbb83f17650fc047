package ref

import (
	"math"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// cachedRows are the rows of a sequence in a latent cache.
func (d *Device) cachedRows(c *graph.Cache, b backend.Buffer, pageSize, s int) [][]float32 {
	pages := d.batch.Table(c.Group).Pages
	rows := make([][]float32, d.batch.KVLen[s])
	for p := range rows {
		slot := int(pages[s*d.batch.SeqPages+p/pageSize])*pageSize + p%pageSize
		rows[p] = make([]float32, c.K.Len())
		loadHeads(rows[p], c.Type, c.K, cacheRow(c, b, pageSize, slot, false))
	}
	return rows
}

// topKeys scores all keys of a row and chooses.
func topKeys(d *Device, n *graph.Node, a backend.Args) {
	o, b, axis, c := n.Op.(graph.TopKeys), d.batch, n.In[0].Axis, n.In[2].Cache
	for s := range b.Seqs() {
		keys := d.cachedRows(c, a.In[2], a.Limits.PageSize, s)
		d.counted.CacheRead += int64(len(keys)) * c.RowBytes()
		for r := b.QStart[s]; r < b.QStart[s+1]; r++ {
			q, w := d.read(n, a, 0, int(r)), d.read(n, a, 1, int(r))
			seen := b.KeysOf(s, int(r), backend.Mask{})
			candidates := make([]backend.Scored, len(keys)) // the sequence's, also those that the row does not see
			for p := range candidates {
				candidates[p] = backend.Scored{Score: float32(math.Inf(-1)), At: int32(p)}
				if seen.Sees(p) {
					candidates[p].Score = float32(d.indexScore(q, w, keys[p], axis))
					d.flops(1)
				}
			}
			backend.SelectTop(candidates, o.TopK)
			var chosen []float32
			for _, c := range candidates[:min(o.TopK, len(candidates))] {
				if seen.Sees(int(c.At)) {
					chosen = append(chosen, float32(c.At))
				}
			}
			slices.Sort(chosen)
			for len(chosen) < o.TopK {
				chosen = append(chosen, -1)
			}
			d.write(n, a, 0, int(r), chosen)
		}
	}
}

// indexScore is a key's score with all heads of a row.
func (d *Device) indexScore(q, w, key []float32, axis graph.Axis) (score float64) {
	for h := range axis.Count {
		var dot float64
		for i, k := range key {
			dot += float64(q[h*axis.Size+i]) * float64(k)
		}
		score += float64(w[h]) * max(0, dot)
	}
	d.flops(axis.Count * (2*axis.Size + 3))
	return score
}

// sparseAttention attends to the chosen keys.
func sparseAttention(d *Device, n *graph.Node, a backend.Args) {
	o, b, axis, c := n.Op.(graph.SparseAttention), d.batch, n.In[0].Axis, n.In[1].Cache
	for s := range b.Seqs() {
		keys := d.cachedRows(c, a.In[1], a.Limits.PageSize, s)
		touched := map[int]bool{}
		for r := b.QStart[s]; r < b.QStart[s+1]; r++ {
			q := d.read(n, a, 0, int(r))
			var rows [][]float32
			for _, p := range d.read(n, a, 2, int(r)) {
				if p >= 0 {
					rows, touched[int(p)] = append(rows, keys[int(p)]), true
				}
			}
			out := make([]float32, axis.Count*c.V.Size)
			for h := range axis.Count {
				d.attend(graph.Attention{Scale: o.Scale}, nil, q[h*axis.Size:(h+1)*axis.Size], out[h*c.V.Size:(h+1)*c.V.Size], nil, rows, rows, 0, 0)
			}
			d.write(n, a, 0, int(r), out)
		}
		d.counted.CacheRead += int64(len(touched)) * c.RowBytes()
	}
}
