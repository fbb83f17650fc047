package compile

import (
	"math/bits"

	"github.com/ridge-llm/ridge/backend"
)

// zigzag says which of several devices has which tokens of a sequence. A page of all of them together is cut into twice as many blocks as there are devices: device i has block i from the
// front and block i from the back. In every page, and so in every text, each then has as many keys, and queries that see as many. What a device has lies in the order of the text
// in the page of the same number.
type zigzag struct{ ranks, block int } // block: tokens

// cycle is the tokens of a page of all devices.
func (z zigzag) cycle() int { return 2 * z.ranks * z.block }

// owner is which device has a token of a sequence.
func (z zigzag) owner(token int) int {
	i := token % z.cycle() / z.block
	return min(i, 2*z.ranks-1-i)
}

// count is how many of a sequence's first n tokens a device has: the place of token n among its tokens, if it has that.
func (z zigzag) count(rank, n int) int {
	pages, rest := n/z.cycle(), n%z.cycle()
	in := func(block int) int { return min(max(rest-block*z.block, 0), z.block) }
	return 2*z.block*pages + in(rank) + in(2*z.ranks-1-rank)
}

// slot is where a device keeps the token of a slot of all devices' pages: both have the page of the same number.
func (z zigzag) slot(rank, slot int) int {
	page, in := slot/z.cycle(), slot%z.cycle()
	return 2*z.block*page + z.count(rank, in)
}

// keys is which of a device's keys of a sequence are among some.
func (z zigzag) keys(rank int, k backend.Keys) backend.Keys {
	own := backend.Keys{Low: z.count(rank, k.Low), High: z.count(rank, k.High), Base: z.count(rank, k.Base)}
	for mask := k.Mask; mask != 0; mask &= mask - 1 {
		if token := k.Base + bits.TrailingZeros64(mask); z.owner(token) == rank {
			own.Mask |= 1 << (z.count(rank, token) - own.Base)
		}
	}
	return own
}
