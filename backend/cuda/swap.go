package cuda

import (
	"errors"
	"fmt"

	"github.com/ridge-llm/ridge/backend"
	"github.com/ridge-llm/ridge/backend/cuda/driver"
	"github.com/ridge-llm/ridge/internal/size"
)

// Pages of the cache go to host memory and back on a stream of their own, beside the steps. A copy waits for the steps given before
// it; a later step waits only for the copies of pages that it touches: it must not write to a page that is still going out, nor
// look at one that is still coming in.

var _ backend.Swapper = (*Device)(nil)

// hostMemory is memory that the copy engines read and write by themselves.
type hostMemory struct{ bytes []byte }

// swapper is the stream that pages go over.
type swapper struct {
	ctx      *driver.Context
	steps    *driver.Stream
	stream   *driver.Stream
	given    *driver.Event   // the end of the steps before the copies
	parts    []swapPart      // that may be under way, in order
	spare    []*driver.Event // of parts that are done
	last     int             // the number of the last part
	finished int             // parts up to this number are done, or the steps wait for them
	out, in  partOf
	copies   driver.Copies // of the part at hand
}

// swapPart is copies with a mark behind them.
type swapPart struct {
	number int
	done   *driver.Event
}

// partOf says which part is the last to touch a page. Pages of the same number in different cache groups are not told apart: a step
// may wait for a copy that it need not wait for, which happens only around preemptions.
type partOf []int

func (u *partOf) note(page, part int) {
	if page >= len(*u) {
		*u = append(*u, make([]int, page+1-len(*u))...)
	}
	(*u)[page] = part
}

func (u partOf) page(p int) int {
	if p >= len(u) {
		return 0
	}
	return u[p]
}

// partPages is how many pages there are between two marks: 64 MB of Llama-3.1-8B's cache, more than a millisecond of a PCIe 5 link.
const partPages = 32

func newSwapper(ctx *driver.Context, steps *driver.Stream) (s *swapper, err error) {
	s = &swapper{ctx: ctx, steps: steps}
	if s.stream, err = ctx.NewStream(); err != nil {
		return nil, err
	}
	s.given, err = ctx.NewEvent()
	return s, err
}

// AllocHost implements backend.Swapper.
func (d *Device) AllocHost(n int64, what string) (backend.Buffer, error) {
	m := &hostMemory{}
	err := d.do(func() (err error) {
		m.bytes, err = d.ctx.AllocHost(int(n))
		return err
	})
	if err != nil {
		return backend.Buffer{}, fmt.Errorf("cuda: %s: %s of host memory that stays in place are not to be had; lower --swap-space: %w", what, size.Text(n), err)
	}
	d.host[m] = true
	return backend.Buffer{Mem: m, Len: n}, nil
}

// hostBytes is a buffer of AllocHost.
func hostBytes(b backend.Buffer) []byte { return b.Mem.(*hostMemory).bytes[b.Off : b.Off+b.Len] }

// SwapOut implements backend.Swapper.
func (d *Device) SwapOut(moves []backend.Move) error {
	return d.do(func() error {
		return d.swap.queue(moves, &d.swap.out, func(m backend.Move) (device backend.Buffer, to, from driver.Ptr) {
			return m.Src, driver.Host(hostBytes(m.Dst)), at(m.Src)
		})
	})
}

// SwapIn implements backend.Swapper.
func (d *Device) SwapIn(moves []backend.Move) error {
	return d.do(func() error {
		return d.swap.queue(moves, &d.swap.in, func(m backend.Move) (device backend.Buffer, to, from driver.Ptr) {
			return m.Dst, at(m.Dst), driver.Host(hostBytes(m.Src))
		})
	})
}

// HostBytes implements backend.Swapper.
func (d *Device) HostBytes(b backend.Buffer) []byte { return hostBytes(b) }

// Swaps implements backend.Swapper.
func (d *Device) Swaps() int { return d.swap.last }

// SwapsDone implements backend.Swapper.
func (d *Device) SwapsDone() (done int, err error) {
	err = d.do(d.swap.retire)
	if done = d.swap.last; len(d.swap.parts) > 0 {
		done = d.swap.parts[0].number - 1
	}
	return done, err
}

// queue puts copies on the stream. The list has the pages of one cache, then the same pages of the next, and so on; a part is some
// pages of all caches. The last go first: those are the pages that the engine uses again first.
func (s *swapper) queue(moves []backend.Move, touched *partOf, ends func(backend.Move) (device backend.Buffer, to, from driver.Ptr)) error {
	if len(moves) == 0 {
		return nil
	}
	if err := errors.Join(s.retire(), s.steps.Record(s.given), s.stream.Wait(s.given)); err != nil {
		return err
	}
	pages := 1
	for pages < len(moves) && moves[pages].Src.Mem == moves[0].Src.Mem && moves[pages].Dst.Mem == moves[0].Dst.Mem {
		pages++
	}
	for to := pages; to > 0; to -= partPages {
		s.last++
		from := max(0, to-partPages)
		for cache := 0; cache < len(moves); cache += pages {
			of := moves[cache:min(cache+pages, len(moves))]
			for i := from; i < min(to, len(of)); {
				n := neighbours(of[i:min(to, len(of))])
				m := of[i]
				m.Src.Len, m.Dst.Len = m.Src.Len*int64(n), m.Dst.Len*int64(n)
				device, dst, src := ends(m)
				s.copies.Add(dst, src, device.Len)
				each := device.Len / int64(n) // page p of a cache is at p pages' length from its beginning
				for p := range n {
					touched.note(int(device.Off/each)+p, s.last)
				}
				i += n
			}
		}
		err := s.stream.CopyAll(&s.copies)
		s.copies.Clear()
		if err = errors.Join(err, s.mark()); err != nil {
			return err
		}
	}
	return nil
}

// neighbours is how many moves from the first on are one copy.
func neighbours(moves []backend.Move) int {
	n, first := 1, moves[0]
	for n < len(moves) && moves[n].Src.Off == first.Src.Off+int64(n)*first.Src.Len && moves[n].Dst.Off == first.Dst.Off+int64(n)*first.Dst.Len {
		n++
	}
	return n
}

// mark ends a part.
func (s *swapper) mark() (err error) {
	var e *driver.Event
	if n := len(s.spare); n > 0 {
		e, s.spare = s.spare[n-1], s.spare[:n-1]
	} else if e, err = s.ctx.NewEvent(); err != nil {
		return err
	}
	s.parts = append(s.parts, swapPart{s.last, e})
	return s.stream.Record(e)
}

// retire forgets the parts that are done.
func (s *swapper) retire() error {
	n := 0
	for ; n < len(s.parts); n++ {
		done, err := s.parts[n].done.Done()
		if err != nil {
			return err
		}
		if !done {
			break
		}
		s.finished = max(s.finished, s.parts[n].number)
		s.spare = append(s.spare, s.parts[n].done)
	}
	s.parts = append(s.parts[:0], s.parts[n:]...)
	return nil
}

// before has the steps' stream wait for the copies of the pages that a step touches.
func (s *swapper) before(b *backend.Batch, pageSize int) error {
	if s.finished == s.last {
		return nil
	}
	need := 0
	for t := range b.Tables {
		table := &b.Tables[t]
		for _, slot := range table.Slots {
			need = max(need, s.out.page(int(slot)/pageSize))
		}
		for i, length := range b.KVLen {
			used := min((int(length)+pageSize-1)/pageSize, b.SeqPages)
			for _, page := range table.Pages[i*b.SeqPages : i*b.SeqPages+used] {
				need = max(need, s.in.page(int(page)))
			}
		}
	}
	return s.await(need)
}

// await has the steps' stream wait for a part and those before it.
func (s *swapper) await(number int) error {
	if number <= s.finished {
		return nil
	}
	for _, p := range s.parts {
		if p.number == number {
			s.finished = number
			return s.steps.Wait(p.done)
		}
	}
	return fmt.Errorf("cuda: part %d of the pages swapped is not being copied", number)
}

// awaitAll has the steps' stream wait for all copies.
func (s *swapper) awaitAll() error { return s.await(s.last) }

// close waits for the copies and frees what they needed.
func (s *swapper) close() error {
	err := s.stream.Synchronize()
	for _, p := range s.parts {
		s.spare = append(s.spare, p.done)
	}
	for _, e := range append(s.spare, s.given) {
		e.Close()
	}
	return errors.Join(err, s.stream.Close())
}
