package cuda

import (
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/attention/indexer"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/attention/simt"
	"github.com/ridge-llm/ridge/graph"
)

// topKeys lists the ways to choose keys.
func (d *Device) topKeys(n *graph.Node) []backend.Kernel {
	if sparseRefusal(n) != "" {
		return nil
	}
	return []backend.Kernel{kernel{dev: d, name: "top keys", bind: bindTopKeys, scratch: func(n *graph.Node, lim backend.Limits) int64 {
		return indexer.Scratch(lim.Tokens, lim.SeqPages*lim.PageSize)
	}}}
}

// sparseAttentions lists the ways to attend to chosen keys.
func (d *Device) sparseAttentions(n *graph.Node) []backend.Kernel {
	if sparseRefusal(n) != "" {
		return nil
	}
	return append(d.latentAttention(n, "sparse attention, mma", bindLatentChosen), d.one("sparse attention simt", bindSparseAttention)...)
}

// sparseRefusal is why there is no kernel for a node of sparse attention, "" if there is one.
func sparseRefusal(n *graph.Node) string {
	what, size, most := "its indexer's keys have %d numbers", 0, indexer.MaxSize
	if _, ok := n.Op.(graph.TopKeys); ok {
		size = n.In[2].Cache.K.Len()
	} else {
		what, size, most = "its heads have %d numbers", n.In[1].Cache.K.Size, simt.MaxSize
	}
	if size <= most {
		return ""
	}
	return fmt.Sprintf(what+", and %d is the most on a GPU; the CPU has no such limit", size, most)
}

func bindTopKeys(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	q, c := n.In[0], n.In[2].Cache
	k, err := indexer.New(d.loader, c.K.Len(), q.Type, c.Type, a.Scratch.Len)
	if err != nil {
		return nil, err
	}
	p := &indexer.Params{
		Q: at(a.In[0]), W: at(a.In[1]), Cache: at(a.In[2]), Scores: at(a.Scratch), Chosen: at(a.Out[0]),
		Heads: int32(q.Axis.Count), Size: int32(q.Axis.Size), TopK: int32(n.Op.(graph.TopKeys).TopK),
	}
	return func(s *step) error {
		p.Step, p.TreeLen, p.Ancestors = s.of(c), s.treeLen, s.ancestors
		return k.Launch(d.stream, s.tokens, p)
	}, nil
}

func bindSparseAttention(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	q, c := n.In[0], n.In[1].Cache
	k, err := simt.Find(d.loader, q.Type, c.Type)
	if err != nil {
		return nil, err
	}
	p := &simt.Params{
		Q: at(a.In[0]), Cache: at(a.In[1]), Y: at(a.Out[0]), Chosen: at(a.In[2]), Most: int32(n.In[2].Axis.Len()),
		Heads: int32(q.Axis.Count), KVHeads: 1, KSize: int32(c.K.Size), VSize: int32(c.V.Size), Scale: float32(n.Op.(graph.SparseAttention).Scale), Latent: 1,
	}
	return func(s *step) error {
		p.Step = s.of(c)
		return simt.Launch(d.stream, k, s.tokens, p)
	}, nil
}
