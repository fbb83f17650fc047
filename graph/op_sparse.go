package graph

import "fmt"

// TopKeys chooses which keys of its sequence each row attends to: the TopK with the highest scores, of equal ones the first. A key's score is
// Σ over heads of w × max(0, q · k), with one key for all heads: the indexer of sparse attention (DeepSeek-V3.2-Exp; GLM-5). A row with no
// more than TopK keys gets them all.
type TopKeys struct {
	simple
	TopK int
}

// Name implements Op.
func (TopKeys) Name() string { return "TopKeys" }

// Attrs implements Op.
func (o TopKeys) Attrs() string { return fmt.Sprintf("%d", o.TopK) }

// maxPosition is the largest position that F32 holds exactly.
const maxPosition = 1 << 24

// Infer implements Op: q [tokens, heads × size], w [tokens, heads], a latent cache of keys of this size → positions of keys in the sequence
// [tokens, TopK] f32, in order, -1 behind them.
func (o TopKeys) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 3, 0, 0); err != nil {
		return nil, err
	}
	q, w, c := n.In[0], n.In[1], n.In[2].Cache
	for _, x := range []*Value{q, w} {
		if err := matrix(x); err != nil {
			return nil, err
		}
		if err := whole(x); err != nil {
			return nil, err
		}
	}
	switch {
	case c == nil || !c.Latent:
		return nil, fmt.Errorf("%s is no cache of keys alone", n.In[2].Name)
	case q.Axis.Size != c.K.Len() || w.Axis.Len() != q.Axis.Count || w.Rows != q.Rows || w.Type != q.Type || q.Rows != Tokens:
		return nil, fmt.Errorf("%s of %s with weights %s cannot score keys of %s", q.Name, q.Axis, w.Axis, c.K)
	case o.TopK < 1 || o.TopK > maxPosition:
		return nil, fmt.Errorf("%d keys cannot be chosen; 1 to %d can", o.TopK, maxPosition)
	}
	return []Value{{Rows: Tokens, Axis: Axis{Name: "chosen", Count: o.TopK, Size: 1}, Type: F32}}, nil
}

// Work implements Op: the products of every pair and head, their maximum with 0, weight and sum, and a comparison.
func (o TopKeys) Work(n *Node, s *Step) Work {
	q, c := n.In[0].Axis, n.In[2].Cache
	w := traffic(n, s, s.Pairs(0)*(int64(q.Count)*int64(2*q.Size+3)+1))
	w.CacheRead = s.CtxRows(0) * c.RowBytes()
	return w
}

// TopKeys adds the choice.
func (b *Builder) TopKeys(name string, q, w, cache *Value, topK int) *Value {
	return b.Emit(name, TopKeys{TopK: topK}, []*Value{q, w, cache})[0]
}

// SparseAttention is Attention over a latent cache in which each row attends to the keys that TopKeys has chosen for it, and to no others.
type SparseAttention struct {
	simple
	Scale float64
}

// Name implements Op.
func (SparseAttention) Name() string { return "SparseAttention" }

// Attrs implements Op.
func (o SparseAttention) Attrs() string { return fmt.Sprintf("scale %.6g", o.Scale) }

// Infer implements Op: q [tokens, heads × key size], cache, chosen [tokens, so many] → [tokens, heads × value size].
func (o SparseAttention) Infer(n *Node) ([]Value, error) {
	if err := arity(n, 3, 0, 0); err != nil {
		return nil, err
	}
	c, chosen := n.In[1].Cache, n.In[2]
	if c == nil || !c.Latent {
		return nil, fmt.Errorf("%s is no latent cache", n.In[1].Name)
	}
	if chosen.Cache != nil || chosen.Type != F32 || chosen.Rows != n.In[0].Rows {
		return nil, fmt.Errorf("%s is no choice of keys for %s", chosen.Name, n.In[0].Name)
	}
	return Attention{Scale: o.Scale}.Infer(&Node{In: n.In[:2]})
}

// Work implements Op: as Attention's, for the keys that rows attend to at most. Which rows of the cache those are, only the scores say: as
// many are counted as the last token of a sequence attends to.
func (o SparseAttention) Work(n *Node, s *Step) Work {
	q, c, most := n.In[0], n.In[1].Cache, n.In[2].Axis.Len()
	perPair := int64(2*c.K.Size + 2*c.V.Size + 4)
	w := traffic(n, s, int64(q.Axis.Count)*(s.Pairs(most)*perPair+int64(s.Tokens())*int64(c.V.Size)))
	w.CacheRead = s.CtxRows(most) * c.RowBytes()
	return w
}

// SparseAttention adds the attention of queries q to the chosen keys of a version of a cache.
func (b *Builder) SparseAttention(name string, q, cache, chosen *Value, scale float64) *Value {
	return b.Emit(name, SparseAttention{Scale: scale}, []*Value{q, cache, chosen})[0]
}
