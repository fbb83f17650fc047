package diffusion

import (
	"cmp"
	"math"
	"slices"
)

// Candidate is what the model proposes for one masked token.
type Candidate struct {
	At     int     // place in the block
	Sure   float64 // the larger, the surer; see Algorithm
	Forced bool    // it is fixed whatever the others are: the row that proposes it is computed this once
}

// Block is the tokens that are being found.
type Block struct {
	found  []bool
	left   int // that are masked
	length int
	steps  int // in which it is to be found
	step   int // those that it has had
	order  []Candidate
}

// Begin begins a block of so many masked tokens, of an answer of at most so many. Its memory is used again.
func (b *Block) Begin(o *Options, length, answer int) {
	b.found = append(b.found[:0], make([]bool, length)...)
	b.left, b.length, b.step = length, length, 0
	b.steps = length
	if o.Steps > 0 {
		b.steps = min(max(min(o.Steps, answer)*length/max(answer, 1), 1), length)
	}
}

// Masked reports whether a token is still to be found.
func (b *Block) Masked(at int) bool { return !b.found[at] }

// Done reports whether all are found.
func (b *Block) Done() bool { return b.left == 0 }

// Steps is how many steps the block has had.
func (b *Block) Steps() int { return b.step }

// Fix takes the candidates of a step, one for each masked token, and returns those that are fixed, the surest first. Of equals the first in the
// text comes first. random is a number in [0, 1) for each step and place of the block.
func (b *Block) Fix(o *Options, candidates []Candidate, random func(step, at int) float64) []Candidate {
	b.order = append(b.order[:0], candidates...)
	for i := range b.order {
		c := &b.order[i]
		switch {
		case o.Algorithm == Random:
			c.Sure = random(b.step, c.At)
		case o.AlgTemp > 0: // the largest of these are draws without replacement (Gumbel-top-k, arXiv:1903.06059)
			c.Sure = c.Sure/o.AlgTemp - math.Log(-math.Log(random(b.step, c.At)))
		}
	}
	n := b.due()
	if o.Algorithm == Origin {
		n = b.unmasked(random)
	}
	b.sort()
	if o.Threshold > 0 {
		n = 1
		for n < len(b.order) && b.order[n].Sure >= o.Threshold {
			n++
		}
	}
	n = min(n, len(b.order))
	for _, c := range b.order[:n] {
		b.found[c.At] = true
	}
	b.left -= n
	b.step++
	return b.order[:n]
}

// sort puts the surest candidates first.
func (b *Block) sort() {
	slices.SortFunc(b.order, func(x, y Candidate) int {
		switch {
		case x.Forced != y.Forced && x.Forced:
			return -1
		case x.Forced != y.Forced:
			return 1
		}
		return cmp.Or(cmp.Compare(y.Sure, x.Sure), x.At-y.At)
	})
}

// lastTime is the time at which the last step of Origin ends, from 1 on; upstream's eps.
const lastTime = 1e-3

// unmasked is how many candidates a step of Origin fixes: each has the chance 1 - s/t, where the step goes from time t to s, and in the last step all are. Those come first when they
// are sorted. A step that would fix none is left out, since the model would see in the next one what it has seen: the next one's numbers are drawn at once.
func (b *Block) unmasked(random func(step, at int) float64) (n int) {
	width := (1 - lastTime) / float64(b.steps)
	for ; n == 0 && len(b.order) > 0; b.step++ {
		chance := width / (1 - float64(b.step)*width)
		for i := range b.order {
			c := &b.order[i]
			if c.Sure = -random(b.step, c.At); c.Forced || b.step >= b.steps-1 || -c.Sure < chance {
				n++
			}
		}
	}
	b.step-- // Fix counts the last of them
	return n
}

// due is how many tokens the step fixes by the number of steps: as many as every other, the first ones one more where they do not divide.
func (b *Block) due() int {
	n := b.length / b.steps
	if b.step < b.length%b.steps {
		n++
	}
	return max(n, 1)
}
