package compile

// HostPager is a Runner whose pages of host memory this process can read and write.
type HostPager interface {
	// HostPage is where a page of a group lies in host memory, in pieces: a program's caches one behind the other, and devices by their number.
	HostPage(group int, page int32) [][]byte
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
		n := p.limits.PageBytes(c)
		pieces = append(pieces, p.swap.device.HostBytes(p.swap.pages[c].Slice(int64(page)*n, n)))
	}
	return pieces
}

// Swaps implements HostPager.
func (p *Program) Swaps() int { return p.swap.device.Swaps() }

// SwapsDone implements HostPager.
func (p *Program) SwapsDone() (int, error) { return p.swap.device.SwapsDone() }

// HostPage implements HostPager.
func (x *Group) HostPage(group int, page int32) (pieces [][]byte) {
	for _, p := range x.programs {
		pieces = append(pieces, p.HostPage(group, page)...)
	}
	return pieces
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
