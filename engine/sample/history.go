package sample

// history counts the tokens of one request that penalties look at. It is sparse (a request sees few of the 128k
// tokens): a dense list of entries to walk, and an open-addressed table from id to entry.
type history struct {
	entries []entry
	table   []int32 // entry index + 1 at the id's place or the next free one; 0 is empty; length a power of two
	window  []int32 // the last tokens, a ring; empty if the whole request counts
	oldest  int     // the ring's oldest place, once it is full
	limit   int     // the ring's length when full; 0 for no window
}

// entry counts one token: all its occurrences, and those that frequency and presence penalties count.
type entry struct {
	id            int32
	seen, counted int32
}

func (h *history) reset(window int) {
	*h = history{table: make([]int32, 64), limit: window}
}

// add counts one token of the prompt or of the output. With a window both count alike, and the oldest token leaves.
// It allocates only when the number of distinct tokens (or the window) doubles.
func (h *history) add(id int32, output bool) {
	windowed := h.limit > 0
	e := h.find(id)
	e.seen++
	if output || windowed {
		e.counted++
	}
	switch {
	case !windowed:
	case len(h.window) < h.limit:
		h.window = append(h.window, id)
	default:
		left := h.find(h.window[h.oldest])
		left.seen--
		left.counted--
		h.window[h.oldest] = id
		h.oldest = (h.oldest + 1) % h.limit
	}
}

// copy makes h what other is.
func (h *history) copy(other *history) {
	h.entries, h.table, h.window = append(h.entries[:0], other.entries...), append(h.table[:0], other.table...), append(h.window[:0], other.window...)
	h.oldest, h.limit = other.oldest, other.limit
}

// find returns the entry of id, a new one if need be. It is valid until the next call.
func (h *history) find(id int32) *entry {
	for at := h.place(id); ; at = (at + 1) & (len(h.table) - 1) {
		n := h.table[at]
		if n == 0 {
			h.entries = append(h.entries, entry{id: id})
			h.table[at] = int32(len(h.entries))
			h.grow()
			return &h.entries[len(h.entries)-1]
		}
		if h.entries[n-1].id == id {
			return &h.entries[n-1]
		}
	}
}

func (h *history) place(id int32) int {
	return int(uint64(id)*golden>>32) & (len(h.table) - 1)
}

// grow doubles the table before it is three quarters full.
func (h *history) grow() {
	if 4*len(h.entries) < 3*len(h.table) {
		return
	}
	h.table = make([]int32, 2*len(h.table))
	for i, e := range h.entries {
		at := h.place(e.id)
		for h.table[at] != 0 {
			at = (at + 1) & (len(h.table) - 1)
		}
		h.table[at] = int32(i + 1)
	}
}
