package tokenizer

// shortWord is the length, in symbols, up to which a scan for the best merge beats a heap.
const shortWord = 40

// mergeScratch is the memory that merging one word needs, kept between words.
type mergeScratch struct {
	symbols []int32
	merges  []merge // merges[i] joins symbols i and i+1
	prev    []int32
	next    []int32
	heap    mergeHeap
}

// mergeAll applies the merges of t to symbols, always the one of lowest rank, the leftmost of those, until none applies.
// It works in place and returns what is left of symbols.
func (t *pairTable) mergeAll(symbols []int32, sc *mergeScratch) []int32 {
	switch n := len(symbols); {
	case n < 2:
		return symbols
	case n <= shortWord:
		return t.mergeShort(symbols, sc)
	default:
		return t.mergeLong(symbols, sc)
	}
}

func (t *pairTable) mergeShort(symbols []int32, sc *mergeScratch) []int32 {
	merges := sc.merges[:0]
	for i := 1; i < len(symbols); i++ {
		merges = append(merges, t.get(symbols[i-1], symbols[i]))
	}
	sc.merges = merges
	for {
		best, at := noMerge, -1
		for i, m := range merges {
			if m < best {
				best, at = m, i
			}
		}
		if at < 0 {
			return symbols
		}
		symbols[at] = best.id()
		symbols = append(symbols[:at+1], symbols[at+2:]...)
		merges = append(merges[:at], merges[at+1:]...)
		if at > 0 {
			merges[at-1] = t.get(symbols[at-1], symbols[at])
		}
		if at < len(merges) {
			merges[at] = t.get(symbols[at], symbols[at+1])
		}
	}
}

// mergeLong does the same with a linked list and a heap, in O(n log n).
func (t *pairTable) mergeLong(symbols []int32, sc *mergeScratch) []int32 {
	n := len(symbols)
	sc.size(n)
	prev, next, merges, heap := sc.prev, sc.next, sc.merges, sc.heap[:0]
	for i := range n {
		prev[i], next[i], merges[i] = int32(i-1), int32(i+1), noMerge
		if i+1 < n {
			if merges[i] = t.get(symbols[i], symbols[i+1]); merges[i] != noMerge {
				heap = append(heap, mergeAt{merges[i], int32(i)})
			}
		}
	}
	heap.init()
	update := func(i int32) {
		merges[i] = noMerge
		if j := next[i]; int(j) < n {
			if merges[i] = t.get(symbols[i], symbols[j]); merges[i] != noMerge {
				heap.push(mergeAt{merges[i], i})
			}
		}
	}
	for len(heap) > 0 {
		top := heap.pop()
		i := top.at
		if merges[i] != top.merge {
			continue // one of the pair has been merged with another symbol since
		}
		j := next[i]
		symbols[i], next[i], merges[j] = top.merge.id(), next[j], noMerge
		symbols[j] = -1
		if k := next[i]; int(k) < n {
			prev[k] = i
		}
		update(i)
		if p := prev[i]; p >= 0 {
			update(p)
		}
	}
	sc.heap = heap
	kept := symbols[:0]
	for i := int32(0); int(i) < n; i = next[i] {
		kept = append(kept, symbols[i])
	}
	return kept
}

// size makes room for words of n symbols.
func (sc *mergeScratch) size(n int) {
	if cap(sc.prev) < n || cap(sc.merges) < n {
		sc.prev, sc.next, sc.merges = make([]int32, n), make([]int32, n), make([]merge, n)
	}
	sc.prev, sc.next, sc.merges = sc.prev[:n], sc.next[:n], sc.merges[:n]
}

type mergeAt struct {
	merge merge
	at    int32
}

func (a mergeAt) before(b mergeAt) bool {
	return a.merge < b.merge || a.merge == b.merge && a.at < b.at
}

// mergeHeap is a binary heap, the next merge to apply first.
type mergeHeap []mergeAt

func (h mergeHeap) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *mergeHeap) push(x mergeAt) {
	s := append(*h, x)
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if !s[i].before(s[parent]) {
			break
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
	*h = s
}

func (h *mergeHeap) pop() mergeAt {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	*h = s[:last]
	h.down(0)
	return top
}

func (h mergeHeap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
