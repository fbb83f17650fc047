package engine

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/engine/kv"
	"github.com/ridge-llm/ridge/graph"
)

// newManager is the account of the pages of a program's cache groups, and which of them is the main one: the group that keeps all
// tokens or, where all have windows, that with the longest.
func newManager(groups []graph.CacheGroup, lim backend.Limits, index func(nodes, pageSize int) kv.Index) (m *kv.Manager, main int, err error) {
	o := kv.Options{PageSize: lim.PageSize, Index: index}
	for i, g := range groups {
		o.Groups = append(o.Groups, kv.Group{Pages: lim.GroupPages(i), Window: g.Window})
		if longest := groups[main].Window; longest != 0 && (g.Window == 0 || g.Window > longest) {
			main = i
		}
	}
	for i := range groups {
		if err := enough(&groups[i], i, lim); err != nil {
			return nil, 0, err
		}
	}
	m, err = kv.New(o)
	return m, main, err
}

// enough refuses a group that could run out of pages while the main group has some left. What a sequence holds in it is part of what
// the sequence holds in the main group, so as many pages as that has are enough; and so are those that any step can need.
func enough(g *graph.CacheGroup, i int, lim backend.Limits) error {
	need := min(lim.Pages, g.StepPages(graph.CacheShape{Seqs: lim.Seqs, Tokens: lim.SeqPages * lim.PageSize, StepTokens: lim.Tokens, PageSize: lim.PageSize}))
	if have := lim.GroupPages(i); have < need {
		return fmt.Errorf("engine: cache group %d, with a window of %d tokens, has %d pages; steps of %d tokens and %d sequences can need %d", i, g.Window, have, lim.Tokens, lim.Seqs, need)
	}
	return nil
}
