package cuda

import (
	"encoding/binary"
	"errors"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/backend/cuda/kernels"
	"github.com/ridge-llm/ridge/backend/cuda/kernels/collective"
	"github.com/ridge-llm/ridge/graph"
)

// routing is a group's memory for rows that go to experts and come back, one layer's after the other's.
type routing struct {
	collective.Routes
	placed             driver.Ptr // shares of own rows by the places of experts
	come, list, shares int64      // bytes of each
}

// routesFor makes room for the rows of a Dispatch.
func (p *peers) routesFor(rows int, o graph.Spread) error {
	r := &p.routing
	come, list := collective.RoutesBytes(rows, o.Held())
	shares := int64(0)
	if o.Placed != nil {
		shares = 4 * int64(rows) * int64(o.Experts)
	}
	for _, m := range []struct {
		to    []*driver.Ptr
		has   *int64
		bytes int64
	}{{[]*driver.Ptr{&r.Come}, &r.come, come}, {[]*driver.Ptr{&r.Arrived, &r.Number, &r.Reached}, &r.list, list}, {[]*driver.Ptr{&r.placed}, &r.shares, shares}} {
		if m.bytes <= *m.has {
			continue
		}
		*m.has = m.bytes
		for _, to := range m.to {
			var err error
			if *to, err = p.d.alloc(m.bytes, "rows on their way to experts"); err != nil {
				return err
			}
		}
	}
	return nil
}

// ints puts numbers on the device.
func (d *Device) ints(x []int32, what string) (driver.Ptr, error) {
	at, err := d.alloc(max(4*int64(len(x)), 4), what)
	if err != nil {
		return 0, err
	}
	d.upload.rows(at, len(x), 4, func(dst []byte, from, to int) {
		for i := from; i < to; i++ {
			binary.LittleEndian.PutUint32(dst[4*(i-from):], uint32(x[i]))
		}
	})
	return at, nil
}

// bindDispatch binds what brings rows to their experts. How many come is known on the GPU alone: launches for them are for as many as there are in the step, and look there.
func (p *peers) bindDispatch(n *graph.Node, a backend.Args, o graph.Dispatch) (func(*step) error, error) {
	v := n.In[0]
	if err := errors.Join(p.routesFor(a.Limits.Tokens, o.Spread), p.ranks(o.Ranks)); err != nil {
		return nil, err
	}
	var first, copies driver.Ptr
	var err error
	if o.Placed != nil {
		f, c := collective.Copies(o.Placed)
		if first, err = p.d.ints(f, "places of experts"); err != nil {
			return nil, err
		}
		if copies, err = p.d.ints(c, "places of experts"); err != nil {
			return nil, err
		}
	}
	k, err := collective.NewDispatch(p.d.loader, v.Type, v.Axis.Len(), o.Spread, p.group.Rank, first, copies)
	x, shares, y, here := at(a.In[0]), at(a.In[1]), at(a.Out[0]), at(a.Out[1])
	return func(s *step) error {
		k.Placed = p.routing.placed
		return k.Launch(p.d.stream, &p.group, p.routing.Routes, x, shares, y, here, s.Counts+4*kernels.CountArrived, s.first)
	}, err
}

// bindCombine binds what brings back what experts have made of rows.
func (p *peers) bindCombine(n *graph.Node, a backend.Args, o graph.Combine) (func(*step) error, error) {
	v := n.In[0]
	k, err := collective.NewCombineRows(p.d.loader, v.Type, v.Axis.Len())
	x, y := at(a.In[0]), at(a.Out[0])
	return func(s *step) error {
		return k.Launch(p.d.stream, &p.group, p.routing.Routes, x, y, s.Counts+4*kernels.CountArrived, s.first)
	}, errors.Join(err, p.ranks(o.Ranks))
}
