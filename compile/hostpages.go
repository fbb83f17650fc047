package compile

import (
	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/graph"
)

// HostPager is a Runner whose pages of host memory this process can read and write.
type HostPager interface {
	// HostPage is where a page of a group lies in host memory, in pieces: a program's caches one behind the other, those of devices Joined, or else device by device.
	HostPage(group int, page int32) [][]byte
	// Joined reports whether pieces in their order are what one device's page would be, whatever the layout.
	Joined() bool
	// Spread copies what HostPage has been filled with to devices that have copies of it.
	Spread(group int, page int32)
	// Swaps is a number for the copies to and from host memory given so far, and SwapsDone up to which such number they are done.
	Swaps() int
	SwapsDone() (int, error)
}

var (
	_ HostPager = (*Program)(nil)
	_ HostPager = (*Group)(nil)
)

// HostPage implements HostPager.
func (p *Program) HostPage(group int, page int32) (pieces [][]byte) {
	for _, c := range p.groups[group].Caches {
		pieces = append(pieces, p.hostPage(c, page))
	}
	return pieces
}

// hostPage is a page of a cache in host memory.
func (p *Program) hostPage(c *graph.Cache, page int32) []byte {
	n := p.limits.PageBytes(c)
	return p.swap.device.HostBytes(p.swap.pages[c].Slice(int64(page)*n, n))
}

// Joined implements HostPager.
func (p *Program) Joined() bool { return true }

// Spread implements HostPager: there are no copies.
func (p *Program) Spread(int, int32) {}

// Swaps implements HostPager.
func (p *Program) Swaps() int { return p.swap.device.Swaps() }

// SwapsDone implements HostPager.
func (p *Program) SwapsDone() (int, error) { return p.swap.device.SwapsDone() }

// HostPage implements HostPager.
func (x *Group) HostPage(group int, page int32) (pieces [][]byte) {
	if x.joints == nil {
		for _, p := range x.programs {
			pieces = append(pieces, p.HostPage(group, page)...)
		}
		return pieces
	}
	for _, j := range x.joints[group] {
		at := int64(0)
		for _, head := range j.stretches {
			for _, h := range j.sources {
				n := head * j.heads
				pieces = append(pieces, h.program.hostPage(h.cache, page)[at:at+n])
			}
			at += head * j.heads
		}
	}
	return pieces
}

// Joined implements HostPager.
func (x *Group) Joined() bool { return x.joints != nil }

// Spread implements HostPager: key heads that several devices have, and caches that several stages have.
func (x *Group) Spread(group int, page int32) {
	if x.joints == nil {
		return
	}
	for _, j := range x.joints[group] {
		for _, c := range j.copies {
			copy(c.hostPage(page), j.sources[c.of].hostPage(page))
		}
	}
}

// joint is a cache of the whole graph, of which devices have heads.
type joint struct {
	heads     int64   // of a device, or 1 where it has the whole of a cache that has none
	stretches []int64 // see backend.HeadedPages
	sources   []holder
	copies    []jointCopy
}

// holder is a device's part of a cache.
type holder struct {
	program *Program
	cache   *graph.Cache
}

func (h holder) hostPage(page int32) []byte { return h.program.hostPage(h.cache, page) }

// jointCopy is a device's part of a cache that another device, number of of the sources, has too.
type jointCopy struct {
	holder
	of int
}

// joinPages finds the parts of every cache of a group of devices without sequence parallelism; nil where they cannot be joined: states that are divided, heads by unequal numbers, devices
// that have heads elsewhere.
func (x *Group) joinPages() (all [][]joint) {
	for group := range x.groups {
		var joints []joint
		for _, c := range x.groups[group].Caches {
			j, ok := x.jointOf(group, c)
			if !ok {
				return nil
			}
			joints = append(joints, j)
		}
		all = append(all, joints)
	}
	return all
}

// jointOf is the parts of a cache. Programs are in the order of stages, and of the devices of a stage.
func (x *Group) jointOf(group int, whole *graph.Cache) (j joint, ok bool) {
	var stages [][]holder
	for i, p := range x.programs {
		if i%x.tensor == 0 {
			stages = append(stages, nil)
		}
		for _, c := range p.groups[group].Caches {
			if c.Name == whole.Name {
				at := len(stages) - 1
				stages[at] = append(stages[at], holder{p, c})
			}
		}
	}
	for _, holders := range stages {
		if len(holders) == 0 {
			continue
		}
		first, each := holders[0], 1 // devices of the same heads
		switch c := first.cache; {
		case c.PageBytes(x.limits.PageSize) == whole.PageBytes(x.limits.PageSize) && !whole.Recurrent():
			j.heads, j.stretches, each = 1, []int64{x.limits.PageBytes(c)}, len(holders)
		case whole.Recurrent() && len(holders) == 1:
			j.heads, j.stretches = 1, []int64{x.limits.PageBytes(c)}
		default:
			device, headed := first.program.dev.(backend.HeadedPages)
			heads := len(holders) * c.K.Count
			if !headed || whole.Recurrent() || heads%whole.K.Count != 0 {
				return j, false
			}
			j.heads, j.stretches, each = int64(c.K.Count), device.HeadStretches(c, x.limits.PageSize), heads/whole.K.Count
		}
		fresh := j.sources == nil
		for i, h := range holders {
			if h.cache.PageBytes(x.limits.PageSize) != first.cache.PageBytes(x.limits.PageSize) {
				return j, false
			}
			if fresh && i%each == 0 {
				j.sources = append(j.sources, h)
			} else {
				j.copies = append(j.copies, jointCopy{h, i / each})
			}
		}
	}
	return j, true
}

// Swaps implements HostPager: of devices that all have been given the same copies.
func (x *Group) Swaps() int { return x.last.Swaps() }

// SwapsDone implements HostPager.
func (x *Group) SwapsDone() (done int, err error) {
	for i, p := range x.programs {
		one, err := p.SwapsDone()
		if err != nil {
			return 0, err
		}
		if i == 0 || one < done {
			done = one
		}
	}
	return done, nil
}
