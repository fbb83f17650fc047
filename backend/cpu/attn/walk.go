package attn

import "math"

// walk brings keys [from, to), at most keyTile of them, into the segment's results of all lanes. More keys, up to end,
// come afterwards.
func (t *Tile) walk(h Head, pages []int32, head, from, to, end int) {
	c := h.Cache
	t.find(c, pages, head, from, end)
	bytes := c.Element == I8
	converted := !bytes && (t.lanes >= manyRows && c.Element != F32 || t.valueSize%(2*t.k.lanes) != 0)
	most := len(t.k.products[F32])
	if bytes {
		most = len(t.k.bytes.scores)
	}
	if converted {
		t.convert(c, to-from)
	}
	for lane := 0; lane < t.lanes; lane += most {
		n := min(most, t.lanes-lane)
		if _, high := t.bounds(lane, lane+n); high > from {
			t.score(c, lane, n, min(to, high)-from, converted)
		}
	}
	t.finish(h, from)
	t.k.softmax(&t.scores[0], &t.top[0], &t.sum[0], &t.correct[0], t.lanes)
	if bytes {
		t.roundPowers(c, to-from)
	}
	for lane := 0; lane < t.lanes; lane += most {
		n := min(most, t.lanes-lane)
		if _, high := t.bounds(lane, lane+n); high > from {
			t.gather(c, lane, n, min(to, high)-from, converted)
		}
	}
}

// find fills the table of the tile's blocks and of those that come a tile later. Where there is none any more, any other
// will do.
func (t *Tile) find(c *Cache, pages []int32, head, from, end int) {
	perPage, size := c.PageSize/Block, c.blockBytes()
	page, in, last := from/c.PageSize, from%c.PageSize/Block, (end-1-from)/Block
	for i := range t.blocks {
		if i > last {
			t.blocks[i] = t.blocks[max(i-ahead, 0)]
			continue
		}
		t.blocks[i] = &c.Data[((int(pages[page])*perPage+in)*c.Heads+head)*size]
		if in++; in == perPage {
			page, in = page+1, 0
		}
	}
}

// convert makes float32 of the tile's first n keys and values.
func (t *Tile) convert(c *Cache, n int) {
	for i := 0; i*Block < n; i++ {
		keys, values := t.blocks[i], move(t.blocks[i], c.valueOffset())
		c.widen(t.vec, t.keys[i*Block*t.keySize:][:Block*t.keySize], keys)
		if t.stride == t.valueSize {
			c.widen(t.vec, t.values[i*Block*t.stride:][:Block*t.stride], values)
			continue
		}
		for j := range Block {
			c.widen(t.vec, t.values[(i*Block+j)*t.stride:][:t.valueSize], move(values, j*t.valueSize*c.Element.Bytes()))
		}
	}
}

// score computes the products of some lanes with the tile's first n keys.
func (t *Tile) score(c *Cache, lane, lanes, n int, converted bool) {
	if c.Element == I8 {
		t.scoreBytes(c, lane, lanes, n)
		return
	}
	element, table := c.Element, &t.blocks
	if converted {
		element, table = F32, &t.convertedKeys
	}
	product, size := t.k.products[element][lanes-1], element.Bytes()
	for p := 0; p < n; p += 2 * t.k.lanes {
		pair, gap := 0, t.k.lanes*size // the second vector is the other half of the block
		if t.k.lanes == Block {
			pair, gap = 8, 0 // or the next block
		}
		product(&t.scores[lane*keyTile+p], 4*keyTile, &t.q[lane*t.keySize], 4*t.keySize,
			&table[p/Block], pair, 0, gap, Block*size, 1, t.keySize, nil, 0)
	}
}

// finish bends the scores where there is a cap, and masks what a lane may not look at; from is the tile's first key.
func (t *Tile) finish(h Head, from int) {
	if h.Softcap != 0 {
		scores := t.scores[:t.lanes*keyTile]
		t.vec.Softcap(scores, scores, 1/h.Softcap, h.Softcap*math.Log2E)
	}
	for i := range t.lanes {
		low, high := int(t.low[i])-from, int(t.high[i])-from
		if low <= 0 && high >= keyTile {
			continue
		}
		row := t.scores[i*keyTile : (i+1)*keyTile]
		copy(row[:max(0, min(low, keyTile))], t.masked[:])
		copy(row[max(0, min(high, keyTile)):], t.masked[:])
	}
}

// gather adds the tile's first n values, times the lanes' powers, to what was summed before, corrected.
func (t *Tile) gather(c *Cache, lane, lanes, n int, converted bool) {
	if c.Element == I8 {
		t.gatherBytes(c, lane, lanes, n)
		return
	}
	if converted {
		product := t.k.products[F32][lanes-1]
		for col := 0; col < t.stride; col += 2 * t.k.lanes {
			product(&t.acc[lane*t.stride+col], 4*t.stride, &t.scores[lane*keyTile], 4*keyTile,
				&t.convertedValues[0], 0, 4*col, 4*t.k.lanes, 4*t.stride, 1, n, &t.correct[lane], 2)
		}
		return
	}
	product, size := t.k.products[c.Element][lanes-1], c.Element.Bytes()
	whole, rest := n/Block, n%Block
	for col := 0; col < t.stride; col += 2 * t.k.lanes {
		out, off, start := &t.acc[lane*t.stride+col], c.valueOffset()+size*col, 2
		if whole > 0 {
			product(out, 4*t.stride, &t.scores[lane*keyTile], 4*keyTile,
				&t.blocks[0], 0, off, size*t.k.lanes, size*t.valueSize, whole, Block, &t.correct[lane], start)
			start = 1
		}
		if rest > 0 {
			product(out, 4*t.stride, &t.scores[lane*keyTile+whole*Block], 4*keyTile,
				&t.blocks[whole], 0, off, size*t.k.lanes, size*t.valueSize, 1, rest, &t.correct[lane], start)
		}
	}
}
