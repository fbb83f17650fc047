package cuda

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	densesm90 "github.com/ridge-llm/ridge/backend/cuda/kernels/gemm/dense_sm90"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/lora"
	"github.com/ridge-llm/ridge/graph"
	"github.com/ridge-llm/ridge/quant"
)

var _ backend.AdapterLoader = (*Device)(nil)

// slots is a weight that adapters fill: memory for each slot's product of the largest rank, B of all slots apart from the rest, and a table of lora.Slot.
type slots struct {
	name  string
	of    graph.Slots
	out   int   // rows of B
	a, b  int64 // numbers of the largest A and B
	as    graph.Type
	table driver.Ptr   // 0 before it is bound
	room  driver.Ptr   // [slots] of perSlot bytes
	roomB driver.Ptr   // [slots] of b numbers
	full  []bool       // slots in which there is something
	more  []bool       // slots in which there is more than a product: factors, a bias or rows
	rows  []driver.Ptr // of each slot's own rows and their indices, which few adapters have
	count []int        // of those rows

	separate func() error // has launches made ready that adapters with more than a product need; nil: they are
}

// slotBytes is the size of lora.Slot.
const slotBytes = 64

func newSlots(w *graph.Weight) *slots {
	s := &slots{name: w.Name, of: *w.Slots, out: w.Out.Len(), full: make([]bool, w.Slots.Count), more: make([]bool, w.Slots.Count), rows: make([]driver.Ptr, w.Slots.Count), count: make([]int, w.Slots.Count)}
	in, out := int64(w.In.Len()), int64(w.Out.Len())
	s.a, s.b = int64(paddedRank(w.Slots.Rank))*in, lora.BNumbers(int(out), w.Slots.Rank)
	if w.Slots.Table {
		rank := int64(w.Slots.Rank)
		s.a, s.b = out*rank, rank*in
	}
	return s
}

// paddedRank is the rank with which a product that kernels multiply by lies on the GPU: the numbers behind its own are zeros.
func paddedRank(rank int) int { return (rank + lora.RankUnit - 1) / lora.RankUnit * lora.RankUnit }

// perSlot is what one slot takes beside B: A, columns and bias, each in whole 256 bytes.
func (s *slots) perSlot() int64 {
	n := aligned256(s.as.RowBytes(int(s.a)))
	if !s.of.Table {
		n += 2 * aligned256(4*int64(s.out))
	}
	return n
}

// bytesB is what B of one slot takes.
func (s *slots) bytesB() int64 { return s.as.RowBytes(int(s.b)) }

func aligned256(n int64) int64 { return (n + 255) / 256 * 256 }

// Bytes implements backend.Weight.
func (s *slots) Bytes() int64 {
	if s.table == 0 {
		return 0
	}
	return int64(s.of.Count) * (s.perSlot() + s.bytesB() + slotBytes)
}

// bind gets the memory. Empty slots have no product.
func (s *slots) bind(d *Device, as graph.Type) (err error) {
	if s.table != 0 {
		return nil
	}
	s.as = as
	if s.room, err = d.alloc(int64(s.of.Count)*s.perSlot(), "adapters of "+s.name); err != nil {
		return err
	}
	if s.roomB, err = d.alloc(int64(s.of.Count)*s.bytesB(), "second matrices of adapters of "+s.name); err != nil {
		return err
	}
	if s.table, err = d.alloc(int64(s.of.Count)*slotBytes, "the table of adapters of "+s.name); err != nil {
		return err
	}
	d.upload.bytes(s.table, make([]byte, s.of.Count*slotBytes)) // in order with what fills them
	return nil
}

// SetAdapter implements backend.AdapterLoader. The numbers go over on the stream of weights, beside steps that do not use the slot.
func (d *Device) SetAdapter(w backend.Weight, slot int, l *graph.LowRank) error {
	s, ok := w.(*slots)
	if !ok || slot < 0 || slot >= len(s.rows) || s.table == 0 {
		return fmt.Errorf("cuda: there is no slot %d for an adapter", slot)
	}
	return d.do(func() error { return s.set(d, slot, l) })
}

func (s *slots) set(d *Device, slot int, l *graph.LowRank) error {
	if p := s.rows[slot]; p != 0 {
		// A step under way may still read them.
		if err := d.stream.Synchronize(); err != nil {
			return err
		}
		d.upload.drain()
		s.rows[slot], s.count[slot] = 0, 0
		if err := d.drop(p); err != nil {
			return err
		}
	}
	empty, products := s.empty(), s.products()
	s.full[slot] = l != nil
	s.more[slot] = l != nil && (l.Columns != nil || l.Bias != nil || len(l.Rows.Data) > 0)
	if s.more[slot] && s.separate != nil {
		if err := s.separate(); err != nil {
			s.full[slot], s.more[slot] = false, false
			return err
		}
	}
	if l != nil && len(l.Rows.Data) > 0 || empty != s.empty() || products != s.products() {
		d.steps.forget() // recorded steps have a launch for as many rows as there were, and none where no slot has anything
	}
	var entry lora.Slot
	if l != nil {
		var err error
		if entry, err = s.fill(d, slot, l); err != nil {
			return err
		}
	}
	d.upload.bytes(s.table+driver.Ptr(slot*slotBytes), lora.EncodeSlot(&entry))
	d.loads.begin(slot)
	return nil
}

// bOf is where B of all slots lies.
func (s *slots) bOf() densesm90.AdapterB {
	return densesm90.AdapterB{At: s.roomB, Slots: s.of.Count, Passes: int(lora.BNumbers(1, s.of.Rank) / lora.PassRanks)}
}

// empty reports whether no slot has anything.
func (s *slots) empty() bool { return !slices.Contains(s.full, true) }

// products reports whether all that slots have are products.
func (s *slots) products() bool { return !slices.Contains(s.more, true) }

// fill sends an adapter's numbers, and says where they are.
func (s *slots) fill(d *Device, slot int, l *graph.LowRank) (e lora.Slot, err error) {
	at := s.room + driver.Ptr(int64(slot)*s.perSlot())
	next := func(n int64) driver.Ptr {
		p := at
		at += driver.Ptr(aligned256(n))
		return p
	}
	e.Scale, e.A, e.B = l.Scale, next(s.as.RowBytes(int(s.a))), s.roomB+driver.Ptr(int64(slot)*s.bytesB())
	switch {
	case l.Rank() > 0:
		if l.Rank() > s.of.Rank || int64(l.A.Rows)*int64(l.A.Cols) > s.a || int64(l.B.Rows)*int64(l.B.Cols) > s.b {
			return e, fmt.Errorf("cuda: an adapter of rank %d does not fit into the slots of %s, of rank %d", l.Rank(), s.name, s.of.Rank)
		}
		rank := l.Rank()
		s.send(d, e.A, l.A)
		if e.Rank = int32(rank); s.of.Table {
			s.send(d, e.B, l.B)
			break
		}
		if rank = paddedRank(rank); rank > l.Rank() {
			d.upload.bytes(e.A+driver.Ptr(s.as.RowBytes(l.A.Rows*l.A.Cols)), make([]byte, s.as.RowBytes((rank-l.Rank())*l.A.Cols)))
		}
		e.Rank = int32(rank)
		s.sendB(d, e.B, l.B)
	case !s.of.Table:
		d.upload.bytes(e.B, make([]byte, s.bytesB())) // what multiplies all slots that a step's rows have reads it
	}
	vector := func(v []float32) driver.Ptr {
		if v == nil {
			return 0
		}
		p, b := next(4*int64(len(v))), make([]byte, 4*len(v))
		encode(b, v, graph.F32)
		d.upload.bytes(p, b)
		return p
	}
	e.Columns, e.Bias = vector(l.Columns), vector(l.Bias)
	if len(l.Rows.Data) == 0 {
		return e, nil
	}
	size := aligned256(s.as.RowBytes(l.Rows.Cols) * int64(l.Rows.Rows))
	if s.rows[slot], err = d.alloc(size+4*int64(len(l.Indices)), "an adapter's own rows of "+s.name); err != nil {
		return e, err
	}
	s.count[slot] = l.Rows.Rows
	e.Rows, e.Count = s.rows[slot], int32(l.Rows.Rows)
	s.send(d, e.Rows, l.Rows)
	if l.Indices != nil {
		e.Indices = e.Rows + driver.Ptr(size)
		b := make([]byte, 0, 4*len(l.Indices))
		for _, i := range l.Indices {
			b = binary.LittleEndian.AppendUint32(b, uint32(i))
		}
		d.upload.bytes(e.Indices, b)
	}
	return e, nil
}

// send copies a matrix, rounded to the type of activations.
func (s *slots) send(d *Device, to driver.Ptr, t quant.Tensor) {
	d.upload.rows(to, t.Rows, int(s.as.RowBytes(t.Cols)), func(dst []byte, from, to int) { dequantise(dst, t, from, to, s.as) })
}

// sendB copies B [out, rank] as kernels read it: [passes][out][lora.PassRanks], in as many passes as the slot has, with zeros behind its ranks.
func (s *slots) sendB(d *Device, to driver.Ptr, t quant.Tensor) {
	own, size := int(s.as.RowBytes(t.Cols)), int(s.as.RowBytes(lora.PassRanks))
	passes := int(s.b) / (t.Rows * lora.PassRanks)
	d.upload.rows(to, passes*t.Rows, size, func(dst []byte, from, to int) {
		if own == size && to <= t.Rows {
			dequantise(dst, t, from, to, s.as)
			return
		}
		row := make([]byte, own)
		for i := from; i < to; i++ {
			piece, at := dst[(i-from)*size:][:size], i/t.Rows*size
			if clear(piece); at < own {
				dequantise(row, t, i%t.Rows, i%t.Rows+1, s.as)
				copy(piece, row[at:])
			}
		}
	})
}

// loras is how the GPU computes graph.LoRA.
func (d *Device) loras(n *graph.Node) []backend.Kernel {
	if len(n.Weights) > lora.MaxTargets || !kernels.Plain(n.In[0].Type) || n.Weights[0].Slots.Rank > lora.MaxRank {
		return nil
	}
	for _, y := range n.In[1:] {
		if y.Type != n.In[0].Type {
			return nil
		}
	}
	return []backend.Kernel{kernel{dev: d, name: "lora", bind: bindLoRA, scratch: func(n *graph.Node, lim backend.Limits) int64 {
		return lora.HBytes(mostTiles(lim.Rows(n.In[0].Rows), lim.Seqs), len(n.Weights), paddedRank(n.Weights[0].Slots.Rank))
	}}}
}

func bindLoRA(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	x := n.In[0]
	var outs []int
	for _, w := range n.Weights {
		outs = append(outs, w.Out.Len())
	}
	k, err := lora.New(d.loader, x.Type, x.Axis.Len(), outs)
	if err != nil {
		return nil, err
	}
	p := &lora.Params{X: at(a.In[0]), H: at(a.Scratch), In: int32(x.Axis.Len()), Targets: int32(len(n.Weights)), RankBound: int32(paddedRank(n.Weights[0].Slots.Rank))}
	var targets []*slots
	for i, w := range n.Weights {
		s := a.Weights[i].(*slots)
		if err := s.bind(d, x.Type); err != nil {
			return nil, err
		}
		targets = append(targets, s)
		p.Slots[i], p.Y[i], p.Out[i] = s.table, at(a.Out[i]), int32(w.Out.Len())
	}
	return func(s *step) error {
		replaced := 0
		if !slices.ContainsFunc(targets, func(t *slots) bool { return !t.empty() }) {
			return nil
		}
		for _, t := range targets {
			for i := range t.count {
				replaced = max(replaced, t.count[i])
			}
		}
		for _, g := range s.adapters[x.Rows].rounds {
			p.Tiles = s.adapters[x.Rows].from(g.first)
			if err := k.Launch(d.stream, g.tiles, replaced, p); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func bindLoRAEmbed(d *Device, n *graph.Node, a backend.Args) (func(*step) error, error) {
	y := n.Out[0]
	k, err := lora.Embed(d.loader, y.Type)
	if err != nil {
		return nil, err
	}
	w := a.Weights[0].(*slots)
	if err := w.bind(d, y.Type); err != nil {
		return nil, err
	}
	p := &lora.EmbedParams{Slots: w.table, Y: at(a.Out[0]), Width: int32(y.Axis.Len()), Scale: 1}
	if s := n.Op.(graph.LoRAEmbed).Scale; s != 0 {
		p.Scale = float32(s)
	}
	given := d.bindGiven(y, a.Out[0], false)
	base, _ := n.In[0].From.Op.(graph.Embed)
	input := base.Input // given rows are in the place of those that this table has
	return func(s *step) error {
		if w.empty() {
			return nil
		}
		for _, g := range s.adapters[graph.Tokens].rounds {
			p.Tiles = s.adapters[graph.Tokens].from(g.first)
			p.IDs, p.PrevTokens = s.ids, d.sampler.tokens[1-d.steps.next]
			if err := lora.LaunchEmbed(d.stream, k, g.tiles, p); err != nil {
				return err
			}
		}
		if len(s.givenRows) == 0 {
			return nil
		}
		if !input {
			return fmt.Errorf("a step has both adapters of %s and rows that are given as embeddings of another table, which a GPU does not tell apart; take the CPU", y.Name)
		}
		return given(s) // they are no token's: what adapters have done to them is undone
	}, nil
}
