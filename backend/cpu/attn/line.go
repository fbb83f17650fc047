package attn

// movedFloats is the memory for a key tile's blocks of keys that lie apart, of whatever element.
func movedFloats(keySize, valueSize int) int {
	return keyTile*(keySize+valueSize) + keyTile/Block*2*Block
}

// Line says at which positions of the sequence the last keys of the tile's rows are, in the order of the text: those of a branch of a token tree. They are copied into blocks in which
// they lie as they do without a tree, so that every sum runs in the same order. All rows are of one token, whose keys end with these.
func (t *Tile) Line(at []int32) { t.line = at }

// moveKeys puts blocks with copies into the table where keys [from, to) lie apart; end is the end of the keys.
func (t *Tile) moveKeys(c *Cache, pages []int32, head, from, to, end int) {
	first := end - len(t.line)
	for i := max(first-from, 0) / Block; i*Block < to-from && len(t.line) > 0; i++ {
		block := t.moved[i*c.blockBytes():][:c.blockBytes()]
		for in := range min(Block, to-from-i*Block) {
			position := from + i*Block + in
			if position >= first {
				position = int(t.line[position-first])
			}
			page, within := pages[position/c.PageSize], position%c.PageSize
			c.copyToken(block, in, c.Data[c.block(int(page), within/Block, head):][:c.blockBytes()], within%Block)
		}
		t.blocks[i] = &block[0]
	}
}

// copyToken copies one token's key and value from a head's block to another.
func (c *Cache) copyToken(dst []byte, to int, src []byte, from int) {
	size := c.Element.Bytes()
	if c.Latent {
		row := c.KeySize * size
		copy(dst[to*row:(to+1)*row], src[from*row:])
	} else {
		group := size // bytes of a token that lie together
		if c.Element == I8 {
			group = 4
		}
		for at := 0; at < c.valueOffset(); at += group * Block {
			copy(dst[at+to*group:][:group], src[at+from*group:])
		}
		c.copyValue(dst[c.valueOffset():], to, src[c.valueOffset():], from)
	}
	if c.Element == I8 {
		for at := c.scaleOffset(); at < c.blockBytes(); at += 4 * Block {
			copy(dst[at+4*to:][:4], src[at+4*from:])
		}
	}
}

// copyValue copies one token's value; bytes lie in groups of four tokens.
func (c *Cache) copyValue(dst []byte, to int, src []byte, from int) {
	if c.Element != I8 {
		row := c.ValueSize * c.Element.Bytes()
		copy(dst[to*row:(to+1)*row], src[from*row:])
		return
	}
	group := 4 * c.ValueSize
	for i := range c.ValueSize {
		dst[to/4*group+4*i+to%4] = src[from/4*group+4*i+from%4]
	}
}
