package tokenizer

// pairTable maps a pair of token ids to its merge: an open-addressed hash table of 16-byte slots, because looking pairs up
// is what encoding a new word spends its time on.
type pairTable struct {
	slots []pairSlot // length a power of two, at most two thirds full
	shift uint       // 64 - log2(len(slots))
	n     int
}

// A merge is its rank in the high half and the id of the merged token in the low half, so that comparing merges compares
// ranks.
type merge uint64

const noMerge = ^merge(0)

func newMerge(rank uint32, id int32) merge { return merge(rank)<<32 | merge(uint32(id)) }
func (m merge) id() int32                  { return int32(uint32(m)) }

type pairSlot struct {
	key   uint64 // left id, right id
	merge merge  // noMerge marks a free slot
}

func newPairTable(n int) *pairTable {
	t := &pairTable{}
	size, log := 16, uint(4)
	for size*2 < n*3 {
		size *= 2
		log++
	}
	t.resize(size, log)
	return t
}

func (t *pairTable) resize(size int, log uint) {
	t.slots, t.shift = make([]pairSlot, size), 64-log
	for i := range t.slots {
		t.slots[i].merge = noMerge
	}
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// set stores the merge of a pair; the later of two merges of one pair counts.
func (t *pairTable) set(key uint64, m merge) {
	if (t.n+1)*3 > len(t.slots)*2 {
		old := t.slots
		t.resize(2*len(old), 64-t.shift+1)
		t.n = 0
		for _, s := range old {
			if s.merge != noMerge {
				t.set(s.key, s.merge)
			}
		}
	}
	mask := uint64(len(t.slots) - 1)
	for i := t.home(key); ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.merge == noMerge {
			t.n++
		} else if s.key != key {
			continue
		}
		s.key, s.merge = key, m
		return
	}
}

func (t *pairTable) get(left, right int32) merge {
	key, mask := pairKey(left, right), uint64(len(t.slots)-1)
	for i := t.home(key); ; i = (i + 1) & mask {
		if s := t.slots[i]; s.key == key || s.merge == noMerge {
			return s.merge
		}
	}
}

// home is the slot at which the search for a key starts: Fibonacci hashing, with the high half folded in first.
func (t *pairTable) home(key uint64) uint64 {
	key ^= key >> 29
	return key * 0x9E3779B97F4A7C15 >> t.shift
}
