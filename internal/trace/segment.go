package trace

// Segment is a part of a prompt. Segments of one ID are the same text: the shorter is how the longer begins.
type Segment struct {
	ID     uint64
	Tokens int
}

// IDs of segments that are not blocks. Readers refuse blocks with IDs this high.
const (
	sharedID = 1 << 63
	ownID    = 1 << 62 // plus the request's place in the trace
)

// Segments is what the prompt of request i consists of, Input tokens in all: what all share, its blocks, and what only it has.
func (t *Trace) Segments(i int) []Segment {
	r := &t.Requests[i]
	left := r.Input
	var all []Segment
	add := func(id uint64, tokens int) {
		if tokens = min(tokens, left); tokens > 0 {
			all = append(all, Segment{id, tokens})
			left -= tokens
		}
	}
	if len(r.Blocks) == 0 {
		add(sharedID, t.Shared)
	}
	for _, b := range r.Blocks {
		add(b, t.BlockSize)
	}
	add(ownID+uint64(i), left)
	return all
}

// Scramble is a number that looks random and is the same for the same numbers: what segments are filled with (the finaliser
// of SplitMix64 after each number; Steele, Lea and Flood, OOPSLA 2014).
func Scramble(numbers ...uint64) uint64 {
	var h uint64
	for _, n := range numbers {
		h += n + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}
