package cuda

import (
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	densesm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/packed"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/skinny"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/lora"
	"github.com/ridge-llm/ridge/graph"
)

// Layers of the same rows whose results adapters change are one node, with the function behind a gate and an up matrix. A step without adapters
// launches what it would without the node's adapters. One of few rows is one launch, whose first blocks multiply with the adapters' first matrices (A).
// In a step of more rows one launch does that, and the product goes on with the second ones (B) behind its own matrices: all rows with those of all
// adapters that there are, which is for few; with many, the rows of each with its own. Where a sequence has several, a second launch makes what they add, and the
// product's epilogue adds it. That is for products: where an adapter has more (factors, a bias, rows), the parts are launched one by one.

// adaptedParts is the parts of such a node; act is empty where there is no function.
func adaptedParts[T any](parts []T, op func(T) graph.Op) (layers []T, adapt T, act []T) {
	at := slices.IndexFunc(parts, func(p T) bool { _, ok := op(p).(graph.LoRA); return ok })
	return parts[:at:at], parts[at], parts[at+1:]
}

func opOfNode(n *graph.Node) graph.Op { return n.Op }
func opOfPart(p *part) graph.Op       { return p.node.Op }

func fitsAdaptedLinear(d *Device, n *graph.Node, parts []*graph.Node) bool {
	layers, adapt, act := adaptedParts(parts, opOfNode)
	if len(act) > 0 {
		if fn := act[0].Op.(graph.ActMul).Fn; fn != graph.Silu && fn != graph.GeluTanh {
			return false
		}
	}
	var outs []int
	for _, l := range layers {
		if packed.Has(l.Weights[0].Format) || l.In[0].Type != graph.BF16 {
			return false
		}
		outs = append(outs, l.Out[0].Axis.Len())
	}
	return d.fitsLayers(n, layers) && lora.FitsDelta(adapt.In[0].Axis.Len(), outs, paddedRank(adapt.Weights[0].Slots.Rank))
}

// heldAdaptedLinear is where what adapters add lies in a step of many rows: in place of the products' own results or, where a function joins those,
// of the adapters', which are there when parts are launched one by one.
func heldAdaptedLinear(parts []*graph.Node) []*graph.Node {
	layers, adapt, act := adaptedParts(parts, opOfNode)
	if len(act) > 0 {
		return []*graph.Node{adapt}
	}
	return layers
}

// adaptedLinear is such a node, bound.
type adaptedLinear struct {
	dev     *Device
	layers  []*part
	adapt   *part
	act     *part // nil: there is none
	targets []*slots
	deltas  []driver.Ptr // of each layer, [rows, out] bf16

	plain   func(*step) error // without adapters; nil: not bound, and parts are
	parts   func(*step) error // one by one; nil: not bound
	few     *skinny.AdaptedKernel
	fewOf   skinny.AdaptedParams
	first   lora.Kernels // of each sequence's first adapter: they write what is added
	rest    lora.Kernels // of its others: they add to that
	addOf   lora.Params
	many    *densesm90.Kernel
	store   lora.PlanesKernels // of A's products, for behind
	storeOf lora.PlanesParams
	planes  densesm90.Planes
	behind  *densesm90.PlanesKernel
	tiles   lora.TilesKernel // of A's products, for own
	tilesOf lora.TilesParams
	hidden  densesm90.Hidden
	own     *densesm90.AdaptedKernel
	inRows  graph.Rows
}

func bindAdaptedLinear(d *Device, n *graph.Node, a backend.Args, parts []*part) (*launch, error) {
	layers, adapt, act := adaptedParts(parts, opOfPart)
	l := &adaptedLinear{dev: d, inRows: n.In[0].Rows, layers: layers, adapt: adapt}
	var outs []int
	for i, layer := range layers {
		outs = append(outs, layer.node.Out[0].Axis.Len())
		l.targets = append(l.targets, adapt.args.Weights[i].(*slots))
		held := layer.args.Out
		if len(act) > 0 {
			held = adapt.args.Out[i:]
		}
		l.deltas = append(l.deltas, at(held[0]))
		layer.args.Out = adapt.args.Out[i : i+1]
	}
	if len(act) > 0 {
		l.act = act[0]
		l.act.args.In = adapt.args.Out
	}
	if err := l.separate(); err != nil {
		return nil, err
	}
	var err error
	if l.first, err = lora.NewDelta(d.loader); err != nil {
		return nil, err
	}
	if l.rest, err = lora.New(d.loader, graph.BF16, n.In[0].Axis.Len(), outs); err != nil {
		return nil, err
	}
	if l.store, err = lora.NewPlanes(d.loader); err != nil {
		return nil, err
	}
	if l.planes, err = d.planesFor(a.Limits.Rows(l.inRows)); err != nil {
		return nil, err
	}
	if l.tiles, err = lora.NewTiles(d.loader); err != nil {
		return nil, err
	}
	passes := int(lora.BNumbers(1, adapt.node.Weights[0].Slots.Rank) / lora.PassRanks)
	if l.hidden, err = d.hiddenFor(mostTiles(a.Limits.Rows(l.inRows), a.Limits.Seqs), passes); err != nil {
		return nil, err
	}
	if l.few, err = skinny.NewAdapted(d.loader, l.act != nil); err != nil {
		return nil, err
	}
	if l.act == nil {
		return &launch{put: l.put}, l.whole()
	}
	for _, t := range l.targets {
		t.separate = l.separate
	}
	return &launch{put: l.put, link: l.interleave}, nil
}

// separate binds the parts by themselves, unless they are.
func (l *adaptedLinear) separate() error {
	if l.parts != nil {
		return nil
	}
	all := append(slices.Clone(l.layers), l.adapt)
	if l.act != nil {
		all = append(all, l.act)
	}
	if err := l.dev.alone(all...); err != nil {
		return err
	}
	l.parts = func(s *step) error { return oneByOne(s, all...) }
	return nil
}

// interleave binds the launches of a gate and an up matrix together, if there is memory, as that of bindGatedLinear. Their own copies are gone then,
// and made again if an adapter needs them.
func (l *adaptedLinear) interleave(links) error {
	if l.plain != nil || mustStay(l.layers) {
		return nil
	}
	if err := l.whole(); driver.IsOutOfMemory(err) {
		return nil
	} else if err != nil {
		return err
	}
	l.parts = nil
	if l.products() {
		return nil
	}
	return l.separate()
}

// whole binds the launches of all layers together.
func (l *adaptedLinear) whole() error {
	d := l.dev
	plain, p, err := d.bindProducts(l.layers, l.act)
	if err != nil {
		return err
	}
	x, rank := l.adapt.node.In[0], int32(paddedRank(l.adapt.node.Weights[0].Slots.Rank))
	l.addOf = lora.Params{X: at(l.adapt.args.In[0]), H: at(l.adapt.args.Scratch), In: int32(x.Axis.Len()), Targets: int32(len(l.targets)), RankBound: rank}
	l.fewOf = skinny.AdaptedParams{Params: p.few, H: d.adapted, Arrived: d.adapted + skinny.HiddenBytes}
	p.wide.Deltas = true
	for i, t := range l.targets {
		l.addOf.Slots[i], l.addOf.Y[i], l.addOf.Out[i] = t.table, l.deltas[i], int32(l.layers[i].node.Out[0].Axis.Len())
		b := t.bOf()
		l.fewOf.Slots[i], l.fewOf.B[i] = t.table, skinny.SlotsB{At: b.At, Stride: t.b}
		if l.act != nil && i == 1 {
			p.wide.Weights[0].Delta2, p.wide.Weights[0].B2 = l.deltas[1], b
		} else {
			p.wide.Weights[i].Delta, p.wide.Weights[i].B = l.deltas[i], b
		}
	}
	l.storeOf = lora.PlanesParams{Params: l.addOf, Planes: l.planes.At, Arrived: d.arrived, Rows: int32(l.planes.Rows), Sides: 1}
	if l.act != nil {
		l.storeOf.Sides = 2
	}
	l.tilesOf = lora.TilesParams{Params: l.addOf, Hidden: l.hidden.At, Arrived: d.arrived, Passes: int32(l.hidden.Passes), Room: int32(l.hidden.Tiles)}
	if l.own, err = densesm90.NewAdapted(d.loader, p.wide, l.hidden, d.sums); err != nil {
		return err
	}
	if l.behind, err = densesm90.NewPlanes(d.loader, p.wide, l.planes, d.sums); err != nil {
		return err
	}
	if l.many, err = densesm90.New(d.loader, p.wide, d.sums); err == nil {
		l.plain = plain
	}
	return err
}

// products reports whether all that adapters have for the layers are products, and empty whether they have nothing.
func (l *adaptedLinear) products() bool {
	return !slices.ContainsFunc(l.targets, func(t *slots) bool { return !t.products() })
}

func (l *adaptedLinear) empty() bool {
	return !slices.ContainsFunc(l.targets, func(t *slots) bool { return !t.empty() })
}

func (l *adaptedLinear) put(s *step) error {
	m, a := s.rows(l.inRows), &s.adapters[l.inRows]
	passes := min(a.passes, l.hidden.Passes) // that the step's adapters have, of those that there is room for
	switch {
	case m == 0:
		return nil
	case l.plain == nil:
		return l.parts(s)
	case len(a.rounds) == 0 || l.empty():
		return l.plain(s)
	case !l.products():
		return l.parts(s)
	case len(a.rounds) == 1 && m <= skinny.AdaptedRows:
		p := &l.fewOf
		p.M, p.Tiles, p.Places, p.RowSlots, p.Scales, p.Count, p.Passes = int32(m), a.Tiles.Tiles, a.places, a.rowSlots, a.Scales, int32(a.rounds[0].tiles), int32(passes)
		return l.few.Launch(l.dev.stream, p)
	case len(a.rounds) == 1 && l.behind.Pays(a.planes, passes):
		return l.putBehind(s, m, a, passes)
	case len(a.rounds) == 1:
		return l.putOwn(m, a, passes)
	}
	for i, r := range a.rounds {
		l.addOf.Tiles = a.from(r.first)
		kernels := l.first
		if i > 0 {
			kernels = l.rest
		}
		if err := kernels.Launch(l.dev.stream, r.tiles, 0, &l.addOf); err != nil {
			return err
		}
	}
	return l.many.LaunchDeltas(l.dev.stream, m, a.places)
}

// putBehind puts the launches on the stream that store h and multiply it behind the rows. What of the planes no launch stores is cleared once a step: rows have the
// same planes in all of them.
func (l *adaptedLinear) putBehind(s *step, m int, a *stepAdapters, passes int) error {
	p, stream := &l.storeOf, l.dev.stream
	p.Tiles, p.Steps = a.Tiles, int32(l.behind.Steps(a.planes, passes))
	p.Passes, p.RankBound = int32(passes), int32(lora.PassRanks*passes)
	if s.cleared != a {
		if err := l.store.Clear(stream, l.planes.At, l.planes.Used(a.planes*passes)); err != nil {
			return err
		}
		s.cleared = a
	}
	if err := l.store.Launch(stream, a.rounds[0].tiles, p); err != nil {
		return err
	}
	return l.behind.Launch(stream, m, a.slots, a.planes, passes)
}

// putOwn puts the launches on the stream that store h of the rows' tiles and multiply it with their own B behind the rows.
func (l *adaptedLinear) putOwn(m int, a *stepAdapters, passes int) error {
	p := &l.tilesOf
	p.Tiles, p.RankBound = a.Tiles, int32(lora.PassRanks*passes)
	if err := l.tiles.Launch(l.dev.stream, a.rounds[0].tiles, p); err != nil {
		return err
	}
	return l.own.Launch(l.dev.stream, m, &a.own, passes)
}

// hiddenFor is memory for h of so many tiles, which launches share.
func (d *Device) hiddenFor(tiles, passes int) (h densesm90.Hidden, err error) {
	h.Tiles, h.Passes = tiles, passes
	if d.hidden[h] == 0 {
		if d.hidden == nil {
			d.hidden = map[densesm90.Hidden]driver.Ptr{}
		}
		d.hidden[h], err = d.alloc(h.Bytes(), "products of adapters for tiles of rows")
	}
	h.At = d.hidden[h]
	return h, err
}

// planesFor is memory for planes of so many rows, which launches share.
func (d *Device) planesFor(rows int) (p densesm90.Planes, err error) {
	if p.Rows = rows; d.planes[rows] == 0 {
		if d.planes == nil {
			d.planes = map[int]driver.Ptr{}
		}
		d.planes[rows], err = d.alloc(p.Bytes(), "products of adapters for many rows")
	}
	p.At = d.planes[rows]
	return p, err
}
