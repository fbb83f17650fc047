package attn

import "math"

// attendKeyTile is one step of the online softmax: it adds keys [from, to), at most keyTile of them, to the segment's results of all
// rows. More keys, up to end, come afterwards.
func (t *Tile) attendKeyTile(h Head, pages []int32, head, from, to, end int) {
	c := h.Cache
	if t.chosen == nil {
		t.fillBlockTable(c, pages, head, from, end)
		t.moveKeys(c, pages, head, from, to, end)
	}
	bytes := c.int8Products()
	converted := !bytes && (c.Latent || c.Element == I4 || t.rows >= convertRows && c.Element != F32 || t.valueSize%(2*t.k.lanes) != 0)
	most := len(t.k.matmuls[F32])
	if bytes {
		most = len(t.k.i8.qk)
	}
	switch {
	case t.chosen != nil:
		t.convertChosen(c, pages, t.chosen[from:to])
	case converted:
		t.convert(c, to-from)
	}
	for row := 0; row < t.rows; row += most {
		n := min(most, t.rows-row)
		if _, high := t.bounds(row, row+n); high > from {
			t.scoreKeys(c, row, n, min(to, high)-from, converted)
		}
	}
	t.capAndMask(h, from)
	t.k.softmax(&t.scores[0], &t.rowMax[0], &t.rowSum[0], &t.rescale[0], t.rows)
	if bytes {
		t.quantizeP(c, to-from)
	}
	for row := 0; row < t.rows; row += most {
		n := min(most, t.rows-row)
		if _, high := t.bounds(row, row+n); high > from {
			t.accumulateValues(c, row, n, min(to, high)-from, converted)
		}
	}
}

// fillBlockTable fills the table of the key tile's blocks and of the next key tile's, which are prefetched; where there is no next
// block, any other is taken.
func (t *Tile) fillBlockTable(c *Cache, pages []int32, head, from, end int) {
	perPage := c.PageSize / Block
	size, halvings := c.stored()
	page, in, last := from/c.PageSize, from%c.PageSize/Block, (end-1-from)/Block
	for i := range t.blocks {
		if i > last {
			t.blocks[i] = t.blocks[max(i-ahead, 0)]
			continue
		}
		t.blocks[i] = &c.Data[((int(pages[page])*(perPage>>halvings)+in>>halvings)*c.Heads+head)*size]
		if in++; in == perPage {
			page, in = page+1, 0
		}
	}
}

// convert makes float32 of the key tile's first n keys and values.
func (t *Tile) convert(c *Cache, n int) {
	switch {
	case c.Latent:
		t.convertLatent(c, n)
		return
	case c.Element == I4:
		t.convertInt4(c, n)
		return
	}
	for i := 0; i*Block < n; i++ {
		keys, values := t.blocks[i], offset(t.blocks[i], c.valueOffset())
		c.widen(t.vec, t.keys[i*Block*t.keySize:][:Block*t.keySize], keys)
		if t.stride == t.valueSize {
			c.widen(t.vec, t.values[i*Block*t.stride:][:Block*t.stride], values)
			continue
		}
		for j := range Block {
			c.widen(t.vec, t.values[(i*Block+j)*t.stride:][:t.valueSize], offset(values, j*t.valueSize*c.Element.Bytes()))
		}
	}
}

// convertLatent makes float32 of the key tile's first n rows of a latent cache: keys transposed, and values.
func (t *Tile) convertLatent(c *Cache, n int) {
	for i := range (n + Block - 1) / Block * Block {
		t.putLatent(c, i, t.blocks[i/Block])
	}
}

// convertChosen does so of the rows at some positions of a sequence; those that are missing in the last block count as the last.
func (t *Tile) convertChosen(c *Cache, pages []int32, at []float32) {
	for i := range (len(at) + Block - 1) / Block * Block {
		block, in := c.latentBlock(pages, int(at[min(i, len(at)-1)]))
		c.readRow(t.vec, t.row[:t.keySize], block, in)
		t.scatterRow(i)
	}
}

// putLatent converts row i of the key tile, which is in a block.
func (t *Tile) putLatent(c *Cache, i int, block *byte) {
	c.readRow(t.vec, t.row[:t.keySize], block, i%Block)
	t.scatterRow(i)
}

// scatterRow puts the converted row where key and value i of the key tile are.
func (t *Tile) scatterRow(i int) {
	row := t.row[:t.keySize]
	scatter(t.keys[i/Block*Block*t.keySize+i%Block:], row)
	copy(t.values[i*t.stride:][:t.valueSize], row)
}

// scoreKeys computes the scores QKᵀ of some rows with the key tile's first n keys.
func (t *Tile) scoreKeys(c *Cache, row, rows, n int, converted bool) {
	if c.int8Products() {
		t.scoreInt8(c, row, rows, n)
		return
	}
	element, table := c.Element, &t.blocks
	if converted {
		element, table = F32, &t.convertedKeys
	}
	product, size := t.k.matmuls[element][rows-1], element.Bytes()
	for p := 0; p < n; p += 2 * t.k.lanes {
		pair, gap := 0, t.k.lanes*size // the second vector is the other half of the block
		if t.k.lanes == Block {
			pair, gap = 8, 0 // or the next block
		}
		product(&t.scores[row*keyTile+p], 4*keyTile, &t.q[row*t.keySize], 4*t.keySize,
			&table[p/Block], pair, 0, gap, Block*size, 1, t.keySize, nil, 0)
	}
}

// capAndMask applies the softcap, if there is one, and masks the keys that a row must not attend to; from is the tile's first key.
func (t *Tile) capAndMask(h Head, from int) {
	if h.Softcap != 0 {
		scores := t.scores[:t.rows*keyTile]
		t.vec.Softcap(scores, scores, 1/h.Softcap, h.Softcap*math.Log2E)
	}
	for i := range t.rows {
		low, high, base := int(t.low[i])-from, int(t.high[i])-from, int(t.base[i])-from
		if low <= 0 && base >= keyTile {
			continue
		}
		row := t.scores[i*keyTile : (i+1)*keyTile]
		for k := max(base, 0); k < min(high, keyTile); k++ {
			if t.tree[i]>>(k-base)&1 == 0 {
				row[k] = maskValue
			}
		}
		copy(row[:max(0, min(low, keyTile))], t.maskedScores[:])
		copy(row[max(0, min(high, keyTile)):], t.maskedScores[:])
	}
}

// accumulateValues adds PV of the key tile's first n values to the rescaled accumulators.
func (t *Tile) accumulateValues(c *Cache, row, rows, n int, converted bool) {
	if c.int8Products() {
		t.accumulateInt8(c, row, rows, n)
		return
	}
	if converted {
		product := t.k.matmuls[F32][rows-1]
		for col := 0; col < t.stride; col += 2 * t.k.lanes {
			product(&t.acc[row*t.stride+col], 4*t.stride, &t.scores[row*keyTile], 4*keyTile,
				&t.convertedValues[0], 0, 4*col, 4*t.k.lanes, 4*t.stride, 1, n, &t.rescale[row], 2)
		}
		return
	}
	product, size := t.k.matmuls[c.Element][rows-1], c.Element.Bytes()
	whole, rest := n/Block, n%Block
	for col := 0; col < t.stride; col += 2 * t.k.lanes {
		out, off, start := &t.acc[row*t.stride+col], c.valueOffset()+size*col, 2
		if whole > 0 {
			product(out, 4*t.stride, &t.scores[row*keyTile], 4*keyTile,
				&t.blocks[0], 0, off, size*t.k.lanes, size*t.valueSize, whole, Block, &t.rescale[row], start)
			start = 1
		}
		if rest > 0 {
			product(out, 4*t.stride, &t.scores[row*keyTile+whole*Block], 4*keyTile,
				&t.blocks[whole], 0, off, size*t.k.lanes, size*t.valueSize, 1, rest, &t.rescale[row], start)
		}
	}
}
