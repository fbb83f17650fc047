package graph

import (
	"fmt"

	"github.com/ridge-llm/ridge/quant"
)

// Cache is what a layer keeps of a sequence from step to step: the paged key and value store of an attention layer, or the state of a
// recurrent one. One node writes each version of it, in place.
type Cache struct {
	Name  string // "kv.0"; "conv.0", "delta.0", "ssm.0" of recurrent layers
	Layer int
	K, V  Axis // kv heads × head size; neither in a recurrent layer
	State Axis // of a recurrent layer, all of a sequence's state, in F32; zero: keys and values
	// Latent says that V is a view of K, whose first numbers it is: a row is K alone, of one head (multi-head latent attention,
	// DeepSeek-V2, arXiv:2405.04434).
	Latent bool
	Type   Type // of the stored numbers: F32, F16, BF16, I8, F8 or I4
	Window int  // rows that attention looks back, itself included; 0: all of them
	Group  int  // which of Graph.CacheGroups it belongs to
	// Residual says that it keeps the newest tokens of the cache before it, of I4, in 16 bits.
	Residual bool
}

// PageTokens is how many tokens a page of a cache of this type has: whole groups.
func PageTokens(cache Type) int {
	if cache == I4 {
		return quant.Int4Group
	}
	return 16
}

// Recurrent reports whether the cache is a state: as large for any number of tokens.
func (c *Cache) Recurrent() bool { return c.State.Count > 0 }

// RowBytes is what one token takes in this cache, keys and values together, in bytes; 0 of a state.
func (c *Cache) RowBytes() int64 {
	if c.Latent {
		return c.PartBytes(c.K)
	}
	n := c.PartBytes(c.K) + c.PartBytes(c.V)
	if c.Type == I4 {
		n += int64(quant.Int4RangeBytes*c.K.Len()/quant.Int4Group + quant.Int4RangeBytes*c.V.Len()/quant.Int4Run(c.V.Size))
	}
	return n
}

// StateBytes is what a sequence's state takes; 0 of keys and values.
func (c *Cache) StateBytes() int64 { return F32.RowBytes(c.State.Len()) }

// PageBytes is what one page of so many tokens takes or, of a recurrent layer, whose page is a state, that.
func (c *Cache) PageBytes(pageSize int) int64 { return int64(pageSize)*c.RowBytes() + c.StateBytes() }

// PartBytes is what a token's keys take (axis K), or its values (V), in bytes; scales included, but for those of I4.
func (c *Cache) PartBytes(a Axis) int64 {
	n := c.Type.RowBytes(a.Len())
	if c.Type == I8 {
		n += 4 * int64(a.Count)
	}
	return n
}

// CacheGroup is the caches of the layers that need the same rows of a sequence kept. They share page tables: page p of a
// sequence is the same page id in each of them. Of a recurrent group a sequence has one page, its state.
type CacheGroup struct {
	Window    int  // rows that are kept, counted back from the newest; 0: all of them
	Recurrent bool // no rows are kept, but a state
	Caches    []*Cache
}

// CacheGroups is the graph's cache groups, by Cache.Group. Where all layers are recurrent there is one more, without caches: its pages
// take no memory, and count a sequence's tokens.
func (g *Graph) CacheGroups() []CacheGroup {
	var groups []CacheGroup
	recurrent := 0
	for _, c := range g.Caches {
		for c.Group >= len(groups) {
			groups = append(groups, CacheGroup{})
		}
		to := &groups[c.Group]
		if len(to.Caches) == 0 && c.Recurrent() {
			recurrent++
		}
		to.Window, to.Recurrent = c.Window, c.Recurrent()
		to.Caches = append(to.Caches, c)
	}
	if recurrent > 0 && recurrent == len(groups) {
		groups = append(groups, CacheGroup{})
	}
	return groups
}

// checkCacheGroups checks that caches of one group need the same rows.
func (g *Graph) checkCacheGroups() error {
	groups := g.CacheGroups()
	for _, c := range g.Caches {
		if c.Recurrent() != groups[c.Group].Recurrent {
			return fmt.Errorf("graph %s: cache %s shares cache group %d, and one of them is a state and the other keeps rows", g.Name, c.Name, c.Group)
		}
		if c.Window != groups[c.Group].Window {
			return fmt.Errorf("graph %s: cache %s has a window of %d and shares cache group %d with one of %d", g.Name, c.Name, c.Window, c.Group, groups[c.Group].Window)
		}
	}
	return nil
}

// RowBytes is what one token takes in all caches of the group, in bytes.
func (c *CacheGroup) RowBytes() (n int64) {
	for _, one := range c.Caches {
		n += one.RowBytes()
	}
	return n
}

// PageBytes is what one page takes in all caches of the group.
func (c *CacheGroup) PageBytes(pageSize int) (n int64) {
	for _, one := range c.Caches {
		n += one.PageBytes(pageSize)
	}
	return n
}

// SeqPages is how many pages a sequence of so many tokens holds between two steps at most: all of them or, with a window, those
// that the next token's window touches, wherever in its page that token is.
func (c *CacheGroup) SeqPages(tokens, pageSize int) int {
	pages := (tokens + pageSize - 1) / pageSize
	if c.Recurrent {
		return min(pages, 1)
	}
	if c.Window > 0 {
		pages = min(pages, (c.Window+pageSize-3)/pageSize+1) // window-1 rows before the next one
	}
	return pages
}

// CacheShape is what the size of caches depends on beside their layers.
type CacheShape struct {
	Seqs       int // that run at once
	Tokens     int // of a sequence, at most
	StepTokens int // that a step computes, at most
	PageSize   int // tokens
}

// StepPages is how many pages of the group all sequences hold during a step, at most: with that many, no step lacks one.
func (c *CacheGroup) StepPages(s CacheShape) int {
	if c.Recurrent {
		return s.Seqs + 1 // one to go on in from a state that is kept
	}
	all := s.Seqs * ((s.Tokens + s.PageSize - 1) / s.PageSize)
	if c.Window == 0 {
		return all
	}
	// What a step computes takes a page more than it fills in every sequence.
	return min(all, s.Seqs*(c.SeqPages(s.Tokens, s.PageSize)+1)+s.StepTokens/s.PageSize)
}

// Bytes is what so many pages take in all caches of the group.
func (c *CacheGroup) Bytes(pages, pageSize int) int64 {
	return int64(pages) * c.PageBytes(pageSize)
}

// CacheBytes is what all sequences hold in the graph's caches during a step, at most: with that much, no step lacks a page.
func (g *Graph) CacheBytes(s CacheShape) (n int64) {
	for _, c := range g.CacheGroups() {
		n += c.Bytes(c.StepPages(s), s.PageSize)
	}
	return n
}

// MainGroup is which of some cache groups keeps most of every sequence: all tokens or, where all have windows, those of the longest. A
// recurrent one keeps none.
func MainGroup(groups []CacheGroup) int {
	main := -1
	for i, g := range groups {
		if g.Recurrent {
			continue
		}
		if main < 0 || groups[main].Window != 0 && (g.Window == 0 || g.Window > groups[main].Window) {
			main = i
		}
	}
	return max(main, 0)
}
