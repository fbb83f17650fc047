package prefix

import "math/bits"

// MaxReplicas is how many replicas a tree tells apart.
const MaxReplicas = 64

// Tree is what replicas hold. It is used by one goroutine at a time.
type Tree struct {
	holders map[Key]uint64 // a bit for each replica
	known   [MaxReplicas]held
}

// held is the keys of one replica in the order of use. What a replica holds by history is bounded by room, and the key used longest ago goes
// first; what it reported stays until it says otherwise.
type held struct {
	room int // keys
	at   map[Key]int32
	list []entry // entry 0 is the end of the ring: its next is the newest
	free []int32
}

type entry struct {
	key        Key
	prev, next int32
}

// New makes an empty tree.
func New() *Tree { return &Tree{holders: map[Key]uint64{}} }

// SetRoom says how many keys a replica is taken to hold by history.
func (t *Tree) SetRoom(replica, keys int) {
	h := &t.known[replica]
	h.room = keys
	for len(h.at) > h.room {
		t.drop(replica, h.list[h.list[0].prev].key)
	}
}

// Sent notes that a prompt goes to a replica, which will hold it. Keys of the end are older than those of the beginning, as a replica
// evicts the end first.
func (t *Tree) Sent(replica int, chain []Key) {
	h := &t.known[replica]
	if h.room == 0 {
		return
	}
	chain = chain[:min(len(chain), h.room)]
	for i := len(chain) - 1; i >= 0; i-- {
		t.hold(replica, chain[i])
	}
	for len(h.at) > h.room {
		t.drop(replica, h.list[h.list[0].prev].key)
	}
}

// Stored notes that a replica says it holds a key.
func (t *Tree) Stored(replica int, key Key) { t.hold(replica, key) }

// Removed notes that it says it does so no more.
func (t *Tree) Removed(replica int, key Key) { t.drop(replica, key) }

// Cleared forgets what a replica held.
func (t *Tree) Cleared(replica int) {
	h := &t.known[replica]
	for key := range h.at {
		t.unset(replica, key)
	}
	*h = held{room: h.room}
}

// Held writes to depth how many units of a chain each of so many replicas holds from its beginning on.
func (t *Tree) Held(chain []Key, depth []int) {
	clear(depth)
	alive := uint64(1)<<len(depth) - 1
	for i, key := range chain {
		mask := t.holders[key] & alive
		for gone := alive &^ mask; gone != 0; gone &= gone - 1 {
			depth[bits.TrailingZeros64(gone)] = i
		}
		if alive = mask; alive == 0 {
			return
		}
	}
	for ; alive != 0; alive &= alive - 1 {
		depth[bits.TrailingZeros64(alive)] = len(chain)
	}
}

// Keys is how many keys a replica holds.
func (t *Tree) Keys(replica int) int { return len(t.known[replica].at) }

// All lists the keys of a replica, those used longest ago first.
func (t *Tree) All(replica int) []Key {
	h := &t.known[replica]
	all := make([]Key, 0, len(h.at))
	if len(h.list) == 0 {
		return all
	}
	for i := h.list[0].prev; i != 0; i = h.list[i].prev {
		all = append(all, h.list[i].key)
	}
	return all
}

// hold makes a key the replica's newest.
func (t *Tree) hold(replica int, key Key) {
	h := &t.known[replica]
	if h.at == nil {
		h.at, h.list = map[Key]int32{}, make([]entry, 1)
	}
	i, ok := h.at[key]
	switch {
	case ok:
		h.unlink(i)
	case len(h.free) > 0:
		i, h.free = h.free[len(h.free)-1], h.free[:len(h.free)-1]
	default:
		i = int32(len(h.list))
		h.list = append(h.list, entry{})
	}
	if !ok {
		h.at[key] = i
		t.holders[key] |= 1 << replica
	}
	first := h.list[0].next
	h.list[i] = entry{key: key, next: first}
	h.list[first].prev, h.list[0].next = i, i
}

func (h *held) unlink(i int32) {
	e := h.list[i]
	h.list[e.prev].next, h.list[e.next].prev = e.next, e.prev
}

func (t *Tree) drop(replica int, key Key) {
	h := &t.known[replica]
	i, ok := h.at[key]
	if !ok {
		return
	}
	h.unlink(i)
	h.free = append(h.free, i)
	delete(h.at, key)
	t.unset(replica, key)
}

func (t *Tree) unset(replica int, key Key) {
	if mask := t.holders[key] &^ (1 << replica); mask != 0 {
		t.holders[key] = mask
	} else {
		delete(t.holders, key)
	}
}
