package grammar

// tokenSet is some tokens of a vocabulary: a list if they are few, else a bit for each.
type tokenSet struct {
	ids  []int32
	bits []uint32
}

// newTokenSet makes a set of tokens and their twins.
func (v *Vocabulary) newTokenSet(ids []int32) *tokenSet {
	n := len(ids)
	for _, id := range ids {
		n += len(v.twins[id])
	}
	if n >= v.MaskWords() {
		bits := make([]uint32, v.MaskWords())
		for _, id := range ids {
			setBit(bits, id)
			for _, twin := range v.twins[id] {
				setBit(bits, twin)
			}
		}
		return &tokenSet{bits: bits}
	}
	list := make([]int32, 0, n)
	for _, id := range ids {
		list = append(append(list, id), v.twins[id]...)
	}
	return &tokenSet{ids: list}
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
