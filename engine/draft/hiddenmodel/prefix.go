package hiddenmodel

import (
	"sort"

	"github.com/ridge-llm/ridge/engine/draft"
)

// The target computes nothing of what its prefix cache has of a sequence, so that there are no hidden states of it. The layer's rows for it are taken from
// a sequence that begins alike, an ended one too, as long as its slot has not been written over.

// shareBeginning gives a slot that a sequence has just got the rows of its beginning that are there.
func (d *drafter) shareBeginning(x *slot) error {
	if !x.fresh {
		return nil
	}
	source, rows := d.alike(&x.computed)
	x.fresh, x.salt = false, x.computed.Salt
	if source == nil {
		x.cut(0)
		return nil
	}
	if x != source {
		from, to := int32(source.number*d.lim.SeqPages), int32(x.number*d.lim.SeqPages)
		for p := range int32((rows + d.lim.PageSize - 1) / d.lim.PageSize) {
			if err := d.Layer.CopyPage(0, from+p, to+p); err != nil {
				return err
			}
		}
		x.positions, x.text = append(x.positions[:0], source.positions[:rows]...), append(x.text[:0], source.text...)
	}
	x.cut(int(x.positions[rows-1]) + 1)
	return nil
}

// alike finds the slot with the most rows of the tokens before those that the target's step has computed; nil: none has any.
func (d *drafter) alike(c *draft.Computed) (best *slot, rows int) {
	known := c.Tokens[:c.From+1] // the row of a position has the token after it
	for i := range d.slots {
		x := &d.slots[i]
		if x.salt != c.Salt || len(x.positions) <= rows {
			continue
		}
		same := 0
		for same < min(len(x.text), len(known)) && x.text[same] == known[same] {
			same++
		}
		if n := sort.Search(len(x.positions), func(i int) bool { return int(x.positions[i])+1 >= same }); n > rows {
			best, rows = x, n
		}
	}
	return best, rows
}
