package automaton

import "slices"

// tokenSet is some tokens of a vocabulary: a list if they are few, else a bit for each.
type tokenSet struct {
	ids  []int32
	bits []uint32
}

// newTokenSet makes a set of tokens and of their duplicates.
func (v *Vocabulary) newTokenSet(ids []int32) *tokenSet {
	var twins []int32
	for _, id := range ids {
		if v.hasDuplicates[id/32]>>(id%32)&1 == 1 {
			twins = append(twins, v.duplicates[id]...)
		}
	}
	if len(ids)+len(twins) < v.MaskWords() {
		return &tokenSet{ids: slices.Concat(ids, twins)}
	}
	bits := make([]uint32, v.MaskWords())
	for _, list := range [][]int32{ids, twins} {
		for _, id := range list {
			setBit(bits, id)
		}
	}
	return &tokenSet{bits: bits}
}

func setBit(mask []uint32, id int32) { mask[id/32] |= 1 << (id % 32) }

// into adds the set to a mask.
func (s *tokenSet) into(mask []uint32) {
	for _, id := range s.ids {
		setBit(mask, id)
	}
	for i, word := range s.bits {
		mask[i] |= word
	}
}

// bytes is the memory the set takes.
func (s *tokenSet) bytes() int { return 4*len(s.ids) + 4*len(s.bits) }
