package backend

import (
	"fmt"
	"math/bits"
)

// MaxTree is the most rows of a token tree.
const MaxTree = 64

// PositionAxes is the axes that a rotation with sections has positions on: time, height and width.
const PositionAxes = 3

// Keys is which keys row r of sequence s attends to. Those from Low on, before High; and of those from Base on only the ones whose
// bit is set in Mask: bit i is key Base+i. Without a tree Base is High.
type Keys struct {
	Low, High, Base int
	Mask            uint64
}

// Group is the first key of the row's group of so many: where one ends, another begins. Rows of a token tree are of the group that the tree begins in.
func (k *Keys) Group(size int) int {
	at := min(k.Base, k.High-1)
	return at - at%size
}

// Tree is how many rows of sequence s are a token tree.
func (b *Batch) Tree(s int) int {
	if len(b.TreeLen) == 0 {
		return 0
	}
	return int(b.TreeLen[s])
}

// Mask says which keys a row attends to, beside the token tree that it may be of; see graph.Attention.
type Mask struct {
	Window        int  // of the cache
	Chunked       bool // Window is the length of chunks
	Bidirectional bool
	Reach         int
}

// KeysOf is which keys a row of sequence s attends to.
func (b *Batch) KeysOf(s, r int, m Mask) Keys {
	if len(b.Seen) > 0 {
		return b.Seen[r]
	}
	if m.Bidirectional {
		end := int(b.KVLen[s])
		k := Keys{High: end, Base: end}
		if at := b.Past(s) + r - int(b.QStart[s]); m.Reach > 0 {
			k.Low, k.High = max(0, at-m.Reach), min(end, at+m.Reach+1)
			k.Base = k.High
		}
		return k
	}
	k := Keys{High: b.Past(s) + r - int(b.QStart[s]) + 1}
	k.Base = k.High
	place := k.High - 1 // of the row in its text
	if base := int(b.KVLen[s]) - b.Tree(s); k.High > base {
		k.Base, k.Mask = base, b.Ancestors[r]
		place = base + bits.OnesCount64(k.Mask) - 1
	}
	switch {
	case m.Chunked:
		k.Low = place - place%m.Window
	case m.Window > 0:
		k.Low = max(0, place-m.Window+1)
	}
	for drop := k.Low - k.Base; drop > 0 && k.Mask != 0; drop-- { // ancestors outside of the window
		k.Mask &= k.Mask - 1
	}
	return k
}

// Sees reports whether key p is one of them.
func (k Keys) Sees(p int) bool {
	if p < k.Base {
		return p >= k.Low
	}
	return p < k.High && k.Mask>>(p-k.Base)&1 != 0
}

// Line is the keys as those of the row's text: of a row of a token tree whose branch does not lie in one piece behind the sequence, the keys of the branch
// count as if it did. Their positions are appended to at: the last ones of the line, in the order of the text; none where key p is at p.
func (k Keys) Line(at []int32) (Keys, []int32) {
	n := bits.OnesCount64(k.Mask)
	high := max(k.Base, k.Low) + n
	if n == 0 || high == k.High {
		return k, at
	}
	for mask := k.Mask; mask != 0; mask &= mask - 1 {
		at = append(at, int32(k.Base+bits.TrailingZeros64(mask)))
	}
	return Keys{Low: k.Low, High: high, Base: high}, at
}

// Position is the position of row r on an axis.
func (b *Batch) Position(axis, r int) int32 {
	if t := len(b.Tokens); len(b.Positions) > t {
		r += axis * t
	}
	return b.Positions[r]
}

// checkTrees says what is wrong with the token trees.
func (b *Batch) checkTrees() error {
	if len(b.TreeLen) == 0 {
		if len(b.Ancestors) > 0 {
			return fmt.Errorf("backend: ancestors of %d rows, and no token trees", len(b.Ancestors))
		}
		return nil
	}
	if len(b.TreeLen) != b.Seqs() || len(b.Ancestors) != len(b.Tokens) {
		return fmt.Errorf("backend: token trees of %d sequences with ancestors of %d rows, for a batch of %d and %d", len(b.TreeLen), len(b.Ancestors), b.Seqs(), len(b.Tokens))
	}
	for s, n := range b.TreeLen {
		end := b.QStart[s+1]
		if n < 0 || n > MaxTree || n > end-b.QStart[s] {
			return fmt.Errorf("backend: sequence %d has a token tree of %d of its %d rows; at most %d fit", s, n, end-b.QStart[s], MaxTree)
		}
		for i := range int(n) {
			if err := b.checkAncestors(int(end)-int(n), i); err != nil {
				return fmt.Errorf("backend: sequence %d: %w", s, err)
			}
		}
	}
	return nil
}

// checkAncestors: row i of the tree that begins at row first attends to itself and, as its parent does, to the parent and its ancestors.
func (b *Batch) checkAncestors(first, i int) error {
	mask := b.Ancestors[first+i]
	before := mask &^ (1 << i)
	parent := uint64(0)
	if before != 0 && before < 1<<i {
		parent = b.Ancestors[first+bits.Len64(before)-1]
	}
	if mask>>i != 1 || before != parent {
		return fmt.Errorf("row %d of the token tree has ancestors %#x; they must be its parent's, %#x, and itself", i, mask, parent)
	}
	if i > 0 && before&1 == 0 {
		return fmt.Errorf("row %d of the token tree does not descend from row 0", i)
	}
	return nil
}

// checkEmbeddings says what is wrong with the rows given as embeddings.
func (b *Batch) checkEmbeddings() error {
	n := len(b.EmbeddingRows)
	if n == 0 && len(b.Embeddings) == 0 {
		return nil
	}
	if n == 0 || len(b.Embeddings) == 0 || len(b.Embeddings)%n != 0 {
		return fmt.Errorf("backend: %d numbers of embeddings for %d rows", len(b.Embeddings), n)
	}
	for _, r := range b.EmbeddingRows {
		if r < 0 || int(r) >= len(b.Tokens) {
			return fmt.Errorf("backend: an embedding of row %d is given; the batch has %d", r, len(b.Tokens))
		}
	}
	return nil
}
