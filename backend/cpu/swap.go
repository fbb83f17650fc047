package cpu

import "github.com/ridge-llm/ridge/backend"

// The processor's own memory is the host's. Moving pages there and back gives a sequence's place in the cache to another
// without computing anything again, but so would a larger cache: swap space is for comparing and for tests.

// AllocHost implements backend.Swapper.
func (d *Device) AllocHost(n int64, what string) (backend.Buffer, error) { return d.Alloc(n, what) }

// SwapOut implements backend.Swapper.
func (d *Device) SwapOut(moves []backend.Move) error {
	d.move(moves)
	return nil
}

// SwapIn implements backend.Swapper.
func (d *Device) SwapIn(moves []backend.Move) error {
	d.move(moves)
	return nil
}

// move makes the copies, each thread its part of them.
func (d *Device) move(moves []backend.Move) {
	d.Lend(func(thread int) {
		n := d.pool.N()
		for _, m := range moves[len(moves)*thread/n : len(moves)*(thread+1)/n] {
			copy(raw(m.Dst), raw(m.Src))
		}
	})
}
